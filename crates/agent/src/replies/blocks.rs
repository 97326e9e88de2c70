//! Cuts a reply into blocks while it comes in: at paragraphs, lines or sentences, and never within a code fence that fits into a block.

use std::time::Duration;

/// The settings for cutting replies into blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BlockSettings {
    pub break_at: BlockBreak,
    /// The fewest and the most characters of a block.
    pub min_chars: usize,
    pub max_chars: usize,
    pub preference: Preference,
    /// A block with fewer characters waits for the next one, for so long at most.
    pub coalesce_chars: usize,
    pub coalesce_idle: Duration,
}

/// When blocks are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BlockBreak {
    /// As soon as there is one.
    TextEnd,
    /// When the reply has ended.
    MessageEnd,
}

/// Where a block ends best.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Preference {
    Paragraph,
    Newline,
    Sentence,
}

/// Cuts one text into blocks.
pub(crate) struct Blocks {
    settings: BlockSettings,
    text: String,
}

impl Blocks {
    pub(crate) fn new(settings: BlockSettings) -> Self {
        let min_chars = settings.min_chars.max(1);
        let max_chars = settings.max_chars.max(min_chars).max(MOST_FENCE_LINE * 2);
        Self { settings: BlockSettings { min_chars, max_chars, ..settings }, text: String::new() }
    }

    /// Adds a piece. Returns the blocks that are complete.
    pub(crate) fn push(&mut self, piece: &str) -> Vec<String> {
        self.text.push_str(piece);
        let mut blocks = Vec::new();
        while let Some(block) = self.next() {
            blocks.extend(Some(block).filter(|block| !block.trim().is_empty()));
        }
        blocks
    }

    /// Returns the rest.
    pub(crate) fn finish(&mut self) -> Option<String> {
        Some(std::mem::take(&mut self.text)).filter(|rest| !rest.trim().is_empty())
    }

    /// Cuts a text that is there as a whole.
    pub(crate) fn cut(mut self, text: &str) -> Vec<String> {
        let mut blocks = self.push(text);
        blocks.extend(self.finish());
        blocks.iter().map(|block| block.trim_matches('\n').to_owned()).collect()
    }

    fn next(&mut self) -> Option<String> {
        let BlockSettings { min_chars, max_chars, preference, .. } = self.settings;
        let at = |chars: usize| self.text.char_indices().nth(chars).map(|(at, _)| at);
        let min = at(min_chars)?;
        let max = at(max_chars);
        let window = max.unwrap_or(self.text.len());
        let fences = Fences::of(&self.text);
        let places: &[fn(&str) -> Vec<usize>] = match (preference, max) {
            (Preference::Paragraph, None) => &[paragraphs],
            (Preference::Newline, None) => &[paragraphs, lines],
            (Preference::Sentence, None) => &[paragraphs, lines, sentences],
            // It has to end now.
            (_, Some(_)) => &[paragraphs, lines, sentences, words],
        };
        let best = places.iter().find_map(|places| {
            let fits = |place: &usize| (min..=window).contains(place) && !fences.contain(*place);
            places(&self.text[..window]).into_iter().rfind(fits)
        });
        if let Some(place) = best {
            let rest = self.text.split_off(place);
            return Some(std::mem::replace(&mut self.text, rest));
        }
        let max = max?;
        // Only a fence that is longer than a block is cut: it is closed here, and opened again in the next block.
        match fences.around(max) {
            None => {
                let rest = self.text.split_off(max);
                Some(std::mem::replace(&mut self.text, rest))
            }
            Some(fence) if fence.start >= min => {
                let rest = self.text.split_off(fence.start);
                Some(std::mem::replace(&mut self.text, rest))
            }
            Some(fence) => {
                let room = max.saturating_sub(fence.close.len() + 1);
                let line = self.text[..room].rfind('\n').filter(|line| *line > fence.body).map(|line| line + 1);
                let cut = line.unwrap_or_else(|| floor(&self.text, room.max(fence.body + 1)));
                let rest = format!("{}\n{}", fence.open, &self.text[cut..]);
                let block = format!("{}\n{}", self.text[..cut].trim_end_matches('\n'), fence.close);
                self.text = rest;
                Some(block)
            }
        }
    }
}

/// The longest line that opens a fence, for the smallest block that can hold one.
const MOST_FENCE_LINE: usize = 40;

/// A code fence: where it begins, where its first line ends, and the lines that open and close it.
struct Fence {
    start: usize,
    body: usize,
    end: usize,
    open: String,
    close: String,
}

struct Fences(Vec<Fence>);

impl Fences {
    fn of(text: &str) -> Self {
        let mut fences: Vec<Fence> = Vec::new();
        let mut is_open = false;
        let mut at = 0;
        for line in text.split_inclusive('\n') {
            let trimmed = line.trim();
            let marks: String = trimmed.chars().take_while(|letter| matches!(letter, '`' | '~')).collect();
            let is_mark = |of: &str| trimmed.chars().all(|letter| of.starts_with(letter));
            if let Some(fence) = fences.last_mut().filter(|_| is_open) {
                if trimmed.starts_with(&fence.close) && is_mark(&fence.close) {
                    (fence.end, is_open) = (at + line.len(), false);
                }
            } else if marks.len() >= 3 && marks.chars().all(|letter| marks.starts_with(letter)) {
                let open: String = trimmed.chars().take(MOST_FENCE_LINE).collect();
                fences.push(Fence { start: at, body: at + line.len(), end: usize::MAX, open, close: marks });
                is_open = true;
            }
            at += line.len();
        }
        Self(fences)
    }

    /// Returns whether a place is within a fence.
    fn contain(&self, place: usize) -> bool {
        self.around(place).is_some()
    }

    fn around(&self, place: usize) -> Option<&Fence> {
        self.0.iter().find(|fence| fence.start < place && place < fence.end)
    }
}

fn paragraphs(text: &str) -> Vec<usize> {
    text.match_indices("\n\n").map(|(at, found)| at + found.len()).collect()
}

fn lines(text: &str) -> Vec<usize> {
    text.match_indices('\n').map(|(at, _)| at + 1).collect()
}

fn sentences(text: &str) -> Vec<usize> {
    let ends = text.match_indices(['.', '!', '?', '。', '！', '？']).filter_map(|(at, mark)| {
        let after = at + mark.len();
        let next = text[after..].chars().next()?;
        (next.is_whitespace() || !mark.is_ascii())
            .then(|| after + if next.is_whitespace() { next.len_utf8() } else { 0 })
    });
    ends.collect()
}

fn words(text: &str) -> Vec<usize> {
    text.match_indices(char::is_whitespace).map(|(at, space)| at + space.len()).collect()
}

/// Returns the boundary of a character at or before a place.
fn floor(text: &str, mut place: usize) -> usize {
    place = place.min(text.len());
    while !text.is_char_boundary(place) {
        place -= 1;
    }
    place
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(min_chars: usize, max_chars: usize, preference: Preference) -> BlockSettings {
        BlockSettings {
            break_at: BlockBreak::TextEnd,
            min_chars,
            max_chars,
            preference,
            coalesce_chars: 0,
            coalesce_idle: Duration::ZERO,
        }
    }

    fn cut(text: &str, settings: BlockSettings, piece: usize) -> Vec<String> {
        let mut blocks = Blocks::new(settings);
        let letters: Vec<char> = text.chars().collect();
        let mut cut: Vec<String> =
            letters.chunks(piece).flat_map(|piece| blocks.push(&piece.iter().collect::<String>())).collect();
        cut.extend(blocks.finish());
        cut
    }

    #[test]
    fn blocks_end_at_the_best_place_there_is() {
        let text = "One sentence here. Another one there.\n\nA second paragraph, which is longer than the first one was.\nA line.\n";
        let paragraphs = cut(text, settings(10, 90, Preference::Paragraph), 3);
        assert_eq!(paragraphs[0], "One sentence here. Another one there.\n\n");
        let sentences = cut(text, settings(10, 90, Preference::Sentence), 3);
        assert_eq!(sentences[0], "One sentence here. ");
        assert_eq!(sentences.concat(), text);
    }

    #[test]
    fn a_fence_stays_whole_if_it_fits_and_is_closed_and_opened_again_if_not() {
        let small = format!("Look:\n\n```rust\n{}```\nThat is all of it.\n", "let x = 1;\n".repeat(4));
        let blocks = cut(&small, settings(10, 100, Preference::Sentence), 5);
        assert!(
            blocks.iter().any(|block| block.contains("```rust\n") && block.trim_end().ends_with("```")),
            "{blocks:?}"
        );
        for block in &blocks {
            assert_eq!(block.matches("```").count() % 2, 0, "{block}");
        }
        let large = format!("```py\n{}```\n", "print(1)\n".repeat(60));
        let blocks = cut(&large, settings(10, 100, Preference::Paragraph), 7);
        assert!(blocks.len() > 3);
        for block in &blocks {
            assert!(block.starts_with("```py\n") && block.trim_end().ends_with("```"), "{block}");
            assert!(block.chars().count() <= 100, "{}", block.len());
        }
        assert_eq!(blocks.concat().matches("print(1)").count(), 60);
    }

    #[test]
    fn nothing_is_lost_whatever_the_pieces_are() {
        let text = "ä".repeat(300) + "\n\n" + &"word ".repeat(100) + "。まだ。" + &"x".repeat(500);
        for piece in [1, 2, 7, 50, 2000] {
            for preference in [Preference::Paragraph, Preference::Newline, Preference::Sentence] {
                let blocks = cut(&text, settings(20, 80, preference), piece);
                assert_eq!(blocks.concat(), text);
                assert!(blocks.iter().all(|block| block.chars().count() <= 80), "{piece} {preference:?}");
            }
        }
    }
}
