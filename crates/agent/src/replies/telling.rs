//! Tells the blocks of a reply while it comes in.

use pincer_store::Clock;
use serde_json::json;
use tokio::time::Instant;

use super::blocks::{BlockBreak, BlockSettings, Blocks};
use crate::event::{Happening, Stream};
use crate::lane::Lane;

/// Tells the blocks of one reply.
pub(crate) struct BlockTeller {
    cutting: Option<Cutting>,
}

struct Cutting {
    settings: BlockSettings,
    blocks: Blocks,
    /// The length of the text that was cut.
    taken: usize,
    /// A small block that waits for the next one, and until when.
    waiting: Option<(String, Instant)>,
    /// The number of blocks that were told.
    told: u32,
}

impl BlockTeller {
    /// Returns a teller that tells nothing without settings.
    pub(crate) fn new(settings: Option<BlockSettings>) -> Self {
        let cutting = settings.map(|settings| Cutting {
            blocks: Blocks::new(settings.clone()),
            settings,
            taken: 0,
            waiting: None,
            told: 0,
        });
        Self { cutting }
    }

    /// Takes what is shown of the reply by now.
    pub(crate) fn add(&mut self, shown: &str, lane: &Lane) {
        let Some(cutting) = &mut self.cutting else { return };
        if cutting.settings.break_at == BlockBreak::TextEnd {
            cutting.add(shown, lane);
        }
    }

    /// Tells the rest of a reply that has ended.
    pub(crate) fn end(&mut self, whole: &str, lane: &Lane) {
        let Some(cutting) = &mut self.cutting else { return };
        cutting.add(whole, lane);
        if let Some(rest) = cutting.blocks.finish() {
            cutting.take(rest, lane);
        }
        cutting.tell_waiting(lane);
    }

    /// Waits until a small block has waited for long enough.
    pub(crate) async fn is_due(&self) {
        match self.cutting.as_ref().and_then(|cutting| cutting.waiting.as_ref()) {
            Some((_, until)) => tokio::time::sleep_until(*until).await,
            None => std::future::pending().await,
        }
    }

    /// Tells the small block that waits.
    pub(crate) fn tell_waiting(&mut self, lane: &Lane) {
        if let Some(cutting) = &mut self.cutting {
            cutting.tell_waiting(lane);
        }
    }
}

impl Cutting {
    fn add(&mut self, shown: &str, lane: &Lane) {
        let Some(piece) = shown.get(self.taken..) else { return };
        self.taken = shown.len();
        for block in self.blocks.push(piece) {
            self.take(block, lane);
        }
    }

    fn take(&mut self, block: String, lane: &Lane) {
        let block = match self.waiting.take() {
            Some((before, _)) if before.chars().count() + block.chars().count() <= self.settings.max_chars => {
                before + &block
            }
            Some((before, _)) => {
                self.tell(&before, lane);
                block
            }
            None => block,
        };
        if block.chars().count() < self.settings.coalesce_chars {
            self.waiting = Some((block, Instant::now() + self.settings.coalesce_idle));
            return;
        }
        self.tell(&block, lane);
    }

    fn tell_waiting(&mut self, lane: &Lane) {
        if let Some((block, _)) = self.waiting.take() {
            self.tell(&block, lane);
        }
    }

    fn tell(&mut self, block: &str, lane: &Lane) {
        let data = json!({ "index": self.told, "text": block.trim_matches('\n') });
        self.told += 1;
        lane.feed.tell(Happening::new(Stream::Block, data), lane.store.now());
    }
}
