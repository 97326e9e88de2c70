//! How long a provider may be silent.

use std::time::{Duration, Instant};

use crate::error::{ErrorKind, ModelError};
use crate::settings::Provider;

/// Silence without any setting.
const USUAL: Duration = Duration::from_secs(120);
/// Silence in a run of the schedule that has a timeout of its own, so that a fallback still has its time.
const SCHEDULED: Duration = Duration::from_secs(60);
/// A connection, if the provider has no setting of its own.
const CONNECT: Duration = Duration::from_secs(30);

/// The kind of run that a request belongs to, and its own limits.
#[derive(Clone, Copy, Debug, Default)]
pub struct Idle {
    /// The timeout of the whole run.
    pub run: Option<Duration>,
    /// The run was started by the schedule.
    pub is_scheduled: bool,
    /// The timeout that the schedule sets for it.
    pub schedule: Option<Duration>,
}

impl Idle {
    /// Returns how long `provider` may be silent. `None` is for ever.
    pub fn window(&self, provider: &Provider) -> Option<Duration> {
        let within_run = |window: Duration| self.run.map_or(window, |run| window.min(run));
        if let Some(timeout) = provider.timeout {
            return Some(within_run(timeout));
        }
        match (self.is_scheduled, provider.is_local()) {
            // A model of one's own may take its time, unless the schedule says how long.
            (true, true) => self.schedule.map(within_run),
            (true, false) => Some(within_run(self.schedule.map_or(USUAL, |timeout| timeout.min(SCHEDULED)))),
            (false, _) => Some(within_run(USUAL)),
        }
    }
}

/// Returns how long a connection to `provider` may take to be there.
pub(crate) fn connect(provider: &Provider) -> Duration {
    provider.timeout.unwrap_or(CONNECT)
}

/// Waits for something of the provider, at most for the window and never beyond the deadline.
pub(crate) async fn within<T>(
    work: impl Future<Output = T>,
    window: Option<Duration>,
    deadline: Option<Instant>,
    silent: &str,
) -> Result<T, ModelError> {
    let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
    let over = || ModelError::new(ErrorKind::Deadline, "the run has reached its timeout");
    // Bytes that are there already would otherwise be taken, again and again.
    if left.is_some_and(|left| left.is_zero()) {
        return Err(over());
    }
    let limit = match (window, left) {
        (Some(window), Some(left)) => Some(window.min(left)),
        (window, left) => window.or(left),
    };
    let Some(limit) = limit else { return Ok(work.await) };
    tokio::time::timeout(limit, work).await.map_err(|_| {
        if left.is_some_and(|left| left <= limit) {
            over()
        } else {
            let message = format!("{silent} for {} s", limit.as_secs_f32());
            ModelError::new(ErrorKind::Idle, message)
        }
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::message::Api;

    #[test]
    fn timeouts_nest_as_the_settings_say() {
        let provider = |url: &str, timeout: Option<u64>| Provider {
            id: "p".into(),
            base_url: url.parse().expect("an address"),
            api: Api::Messages,
            headers: BTreeMap::new(),
            timeout: timeout.map(Duration::from_secs),
            models: Vec::new(),
        };
        let (cloud, local) = ("https://api.example.com", "http://127.0.0.1:1");
        let window = |url: &str, timeout: Option<u64>, run: Option<u64>, is_scheduled: bool, schedule: Option<u64>| {
            let idle =
                Idle { run: run.map(Duration::from_secs), is_scheduled, schedule: schedule.map(Duration::from_secs) };
            idle.window(&provider(url, timeout)).map(|window| window.as_secs())
        };
        assert_eq!(window(cloud, None, None, false, None), Some(120));
        assert_eq!(window(local, None, None, false, None), Some(120));
        assert_eq!(window(cloud, None, Some(30), false, None), Some(30), "a run's timeout bounds it");
        assert_eq!(window(cloud, None, Some(600), false, None), Some(120));
        assert_eq!(window(local, Some(900), None, false, None), Some(900), "the provider's own extends it");
        assert_eq!(window(local, Some(900), Some(60), false, None), Some(60), "but not beyond the run");
        assert_eq!(window(cloud, None, None, true, None), Some(120), "as in any other run");
        assert_eq!(window(cloud, None, None, true, Some(600)), Some(60));
        assert_eq!(window(cloud, None, None, true, Some(20)), Some(20));
        assert_eq!(window(cloud, Some(300), None, true, Some(600)), Some(300));
        assert_eq!(window(local, None, None, true, None), None, "a slow model of one's own");
        assert_eq!(window(local, None, None, true, Some(600)), Some(600));
        assert_eq!(window(local, Some(45), None, true, None), Some(45));
    }
}
