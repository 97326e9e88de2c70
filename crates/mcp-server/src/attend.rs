//! Staying with what a request has begun: progress, questions, cancellation.

use std::collections::VecDeque;
use std::pin::Pin;

use pincer_tools::EventKind;
use rmcp::RoleServer;
use rmcp::model::ClientCapabilities;
use rmcp::service::RequestContext;
use tokio_util::sync::CancellationToken;

use crate::face::{Face, Surface};
use crate::people;
use crate::progress::Progress;
use crate::requests::{Attended, News, question};

/// How what was attended to has ended.
pub(crate) enum Ended<T> {
    /// With this.
    With(T),
    /// A person must answer this question, and nobody is there who could be asked.
    Unanswered(String),
}

/// What happens when nobody can be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Nobody {
    /// It goes on by itself.
    IsFine,
    /// It is left.
    IsTheEnd,
}

/// One who stays with a request.
pub(crate) struct Attendant<'a> {
    pub face: &'a Face,
    pub request: &'a RequestContext<RoleServer>,
    pub client: Option<ClientCapabilities>,
    pub nobody: Nobody,
    /// Cancelled when the client does not want it any more.
    pub abort: &'a CancellationToken,
    /// Cancelled when nobody is there after all.
    pub left: &'a CancellationToken,
}

impl Attendant<'_> {
    /// Stays until it has ended. Everything is sent from here, so that it comes with the answer to this request.
    pub async fn until<T>(&self, mut attended: Attended, going: impl Future<Output = T>) -> Ended<T> {
        let mut progress = Progress::new(self.request.meta.get_progress_token(), self.request.peer.clone());
        let mut questions: VecDeque<News> = VecDeque::new();
        let mut asking: Option<Pin<Box<dyn Future<Output = Option<String>> + Send + '_>>> = None;
        tokio::pin!(going);
        loop {
            // One question at a time: people read one after the other.
            if asking.is_none()
                && let Some(next) = questions.pop_front()
            {
                asking = Some(Box::pin(self.ask(next)));
            }
            let asked = async {
                match &mut asking {
                    Some(asking) => asking.as_mut().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                Some(news) = attended.news.recv() => match news {
                    News::Event(event) => {
                        match (&event.what, self.face.parts.surface) {
                            (EventKind::Update { update }, Surface::Direct | Surface::Search) => progress.pass(update).await,
                            (_, Surface::Direct) => {}
                            _ => progress.tell(&event).await,
                        }
                        if question(&event).is_some() {
                            questions.push_back(News::Event(event));
                        }
                    }
                    News::Asked(..) => questions.push_back(news),
                },
                ended = &mut going => return Ended::With(ended),
                () = self.request.ct.cancelled(), if !self.abort.is_cancelled() => self.abort.cancel(),
                unanswered = asked => {
                    asking = None;
                    if let Some(id) = unanswered {
                        self.left.cancel();
                        if self.nobody == Nobody::IsTheEnd {
                            return Ended::Unanswered(id);
                        }
                    }
                }
            }
        }
    }

    /// Asks the client's user. The question if it could not be.
    async fn ask(&self, news: News) -> Option<String> {
        let (peer, client) = (&self.request.peer, self.client.as_ref());
        match news {
            News::Event(event) => {
                let id = question(&event)?;
                let approval = self.face.parts.approvals.approval(id).ok()?;
                let asked = people::can_ask(client) && people::approve(peer, &self.face.parts.door, &approval).await;
                (!asked).then(|| id.to_owned())
            }
            News::Asked(asked, answer) => {
                let naming = match self.face.parts.surface {
                    Surface::Direct => people::Naming::AsSent,
                    Surface::Code | Surface::Search => people::Naming::Server,
                };
                let _ = answer.send(people::pass(peer, client, asked, naming).await);
                None
            }
        }
    }
}
