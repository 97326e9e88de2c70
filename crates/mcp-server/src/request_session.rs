//! Staying with what a request has begun: progress, questions, cancellation.

use std::collections::{HashSet, VecDeque};
use std::pin::Pin;

use pincer_store::{ApprovalId, ApprovalState, Approvals};
use pincer_tools::{EventKind, Request};
use rmcp::RoleServer;
use rmcp::model::ClientCapabilities;
use rmcp::service::RequestContext;
use serde_json::Value;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::cancellation::{Departure, Wanted};
use crate::face::{Face, Surface};
use crate::people;
use crate::progress::Progress;
use crate::requests::{Attended, News};

/// How what was attended to has ended.
pub(crate) enum Ended<T> {
    /// With this.
    With(T),
    /// A person must answer this question, and nobody is there who could be asked.
    Unanswered(ApprovalId),
}

/// What happens when nobody can be asked, or nobody is there any more.
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
    pub wanted: &'a Wanted<'a>,
    pub client: Option<ClientCapabilities>,
    pub nobody: Nobody,
    /// Cancelled when the client does not want it any more.
    pub abort: &'a CancellationToken,
    /// Cancelled when nobody is there after all.
    pub left: &'a CancellationToken,
}

/// Something to ask the client's user.
enum Question {
    /// Whether a call may be made.
    Approval(ApprovalId),
    /// What a tool wants of its caller.
    Of(Request, oneshot::Sender<Option<Value>>),
}

/// A question that is on somebody's screen.
struct Asking<'a> {
    approval: Option<ApprovalId>,
    /// Takes it back.
    stop: CancellationToken,
    /// The question if it could not be asked.
    going: Pin<Box<dyn Future<Output = Option<ApprovalId>> + Send + 'a>>,
}

impl Attendant<'_> {
    /// Stays until it has ended. Everything is sent from here, so that it comes with the answer to this request.
    pub(crate) async fn until<T>(&self, mut attended: Attended, going: impl Future<Output = T>) -> Ended<T> {
        let mut progress = Progress::new(self.request.meta.get_progress_token(), self.request.peer.clone());
        let (mut known, mut questions) = (HashSet::new(), VecDeque::new());
        let mut asking: Option<Asking<'_>> = None;
        let departure = self.wanted.departure(self.request);
        tokio::pin!(going, departure);
        let mut there = true;
        let ended = loop {
            // One question at a time: people read one after the other.
            if asking.is_none()
                && let Some(next) = questions.pop_front()
            {
                asking = Some(self.asking(next));
            }
            let asked = async {
                match &mut asking {
                    Some(asking) => asking.going.as_mut().await,
                    None => std::future::pending().await,
                }
            };
            let news = tokio::select! {
                biased;
                news = attended.news() => news,
                ended = &mut going => break Ended::With(ended),
                how = &mut departure, if there => {
                    there = false;
                    match (how, self.nobody) {
                        (Departure::Gone, Nobody::IsFine) => self.left.cancel(),
                        (Departure::TakenBack, _) | (_, Nobody::IsTheEnd) => self.abort.cancel(),
                    }
                    continue;
                }
                unanswered = asked => {
                    asking = None;
                    if let Some(id) = unanswered {
                        self.left.cancel();
                        if self.nobody == Nobody::IsTheEnd {
                            break Ended::Unanswered(id);
                        }
                    }
                    continue;
                }
            };
            let question = match news {
                News::Question(id) => Some(id),
                News::Asked(request, answer) => {
                    questions.push_back(Question::Of(request, answer));
                    None
                }
                News::Event(event) => {
                    match (&event.what, self.face.parts.surface) {
                        (EventKind::Update { update }, Surface::Direct | Surface::Search) => {
                            progress.pass(update).await
                        }
                        (_, Surface::Direct) => {}
                        _ => progress.tell(&event).await,
                    }
                    match &event.what {
                        EventKind::ApprovalRequested { approval } => Some(approval.clone()),
                        EventKind::ApprovalResolved { approval, .. } => {
                            // It may have been answered elsewhere.
                            if let Some(asking) = asking.as_ref().filter(|on| on.approval.as_ref() == Some(approval)) {
                                asking.stop.cancel();
                            }
                            None
                        }
                        _ => None,
                    }
                }
            };
            if let Some(id) = question.filter(|id| known.insert(id.clone())) {
                questions.push_back(Question::Approval(id));
            }
        };
        if let Some(Asking { stop, going, .. }) = asking {
            stop.cancel();
            going.await;
        }
        ended
    }

    fn asking(&self, question: Question) -> Asking<'_> {
        let stop = CancellationToken::new();
        let approval = match &question {
            Question::Approval(id) => Some(id.clone()),
            Question::Of(..) => None,
        };
        Asking { approval, stop: stop.clone(), going: Box::pin(self.ask(question, stop)) }
    }

    /// Asks the client's user. The question if it could not be.
    async fn ask(&self, question: Question, stop: CancellationToken) -> Option<ApprovalId> {
        let (peer, client) = (&self.request.peer, self.client.as_ref());
        match question {
            Question::Approval(id) => {
                let approval = self.face.parts.runtime.store().approval(&id).await.ok()?;
                if approval.state != ApprovalState::Pending {
                    // The answer waited for this call.
                    return None;
                }
                let runtime = &self.face.parts.runtime;
                let asked = people::can_ask(client) && people::approve(peer, runtime, &approval, &stop).await;
                (!asked).then_some(id)
            }
            Question::Of(asked, answer) => {
                let naming = match self.face.parts.surface {
                    Surface::Direct => people::Naming::AsSent,
                    Surface::Code | Surface::Search => people::Naming::Server,
                };
                let _ = answer.send(people::pass(peer, client, asked, naming, &stop).await);
                None
            }
        }
    }
}
