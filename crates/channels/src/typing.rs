//! The notice that an answer is being written: from the acceptance of a message until its run ends or waits for a person.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pincer_agent::Agent;
use pincer_store::{AgentRunId, Route};
use tokio::time::MissedTickBehavior;

use crate::{Channel, TypingNotice};

/// The places that are told. One task for each, however many messages came from it.
#[derive(Clone, Default)]
pub(crate) struct Typing(Arc<Mutex<HashMap<Route, VecDeque<AgentRunId>>>>);

impl Typing {
    fn lock(&self) -> MutexGuard<'_, HashMap<Route, VecDeque<AgentRunId>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells a place that an answer is being written, until this run ends or waits.
    pub(crate) fn begin(&self, agent: &Agent, user: &str, channel: &Arc<dyn Channel>, route: Route, run: AgentRunId) {
        let Some(every) = channel.capabilities().typing_every else { return };
        {
            let mut told = self.lock();
            if let Some(runs) = told.get_mut(&route) {
                runs.push_back(run);
                return;
            }
            told.insert(route.clone(), [run].into());
        }
        let (typing, agent, user, channel) = (self.clone(), agent.clone(), user.to_owned(), Arc::clone(channel));
        tokio::spawn(async move {
            let mut ticks = tokio::time::interval(every);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            while let Some(run) = typing.next(&route) {
                let mut over = std::pin::pin!(agent.outcome(&user, &run));
                loop {
                    tokio::select! {
                        biased;
                        _ = &mut over => break,
                        _ = ticks.tick() => channel.typing(route.clone(), TypingNotice::Begin).await,
                    }
                }
            }
            channel.typing(route, TypingNotice::End).await;
        });
    }

    /// Returns the next run of a place. Without one the place is told no longer.
    fn next(&self, route: &Route) -> Option<AgentRunId> {
        let mut told = self.lock();
        let run = told.get_mut(route).and_then(VecDeque::pop_front);
        if run.is_none() {
            told.remove(route);
        }
        run
    }
}
