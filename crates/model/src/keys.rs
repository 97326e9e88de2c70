//! Keys of providers: several for one, the next when one is refused, and the same for one session.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::error::{ErrorKind, ModelError, Retry};

/// The rest of a key after its first failure; each further one is five times as long.
const FIRST_REST: Duration = Duration::from_secs(60);
const LONGEST_REST: Duration = Duration::from_secs(3600);
/// The rest of a key that nothing is left to pay with.
const UNPAID_REST: Duration = Duration::from_secs(5 * 3600);
/// Sessions whose key is remembered.
const MOST_PINS: usize = 10_000;

/// A text that no message shows.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Arc<str>);

impl Secret {
    /// Returns a secret of this text.
    pub fn new(text: impl Into<Arc<str>>) -> Self {
        Self(text.into())
    }

    /// Returns the text itself, to be sent and to be left out.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

/// Gets a key when it is needed: from a file, from a command, from the system's keychain. May block.
pub type Find = dyn Fn() -> Result<Secret, String> + Send + Sync;

/// One key of a provider.
#[derive(Clone)]
pub struct Profile {
    /// Its name: `anthropic:work`, for instance.
    pub id: String,
    /// Gets the key. A provider that needs none has a profile without.
    pub find: Option<Arc<Find>>,
}

impl fmt::Debug for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Profile").field("id", &self.id).finish_non_exhaustive()
    }
}

/// A key that is in use.
#[derive(Clone, Debug)]
pub(crate) struct Key {
    pub profile: String,
    pub secret: Option<Secret>,
}

/// The keys of all providers, in the order in which they are used.
#[derive(Default)]
pub struct Keys {
    profiles: BTreeMap<String, Vec<Profile>>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    resting: HashMap<(String, String), Rest>,
    /// The profile of a session, for each provider.
    pins: HashMap<(String, String), String>,
    found: HashMap<(String, String), Option<Secret>>,
}

struct Rest {
    until: Instant,
    failures: u32,
}

impl Keys {
    /// Returns the keys of providers, by their ids.
    pub fn new(profiles: BTreeMap<String, Vec<Profile>>) -> Self {
        Self { profiles, state: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Chooses a profile: that of the session, or the first that does not rest and was not tried yet. When all rest, the one whose
    /// rest ends first, unless another model can be asked instead.
    fn choose(
        &self,
        provider: &str,
        session: Option<&str>,
        tried: &[String],
        has_fallback: bool,
    ) -> Result<Profile, ModelError> {
        let profiles = self.profiles.get(provider).map(Vec::as_slice).unwrap_or_default();
        let mut state = self.lock();
        let now = Instant::now();
        let rest = |state: &State, profile: &Profile| {
            let rest = state.resting.get(&(provider.to_owned(), profile.id.clone()))?;
            rest.until.checked_duration_since(now).filter(|left| !left.is_zero())
        };
        let pin = session.map(|session| (session.to_owned(), provider.to_owned()));
        let pinned = pin.as_ref().and_then(|pin| state.pins.get(pin));
        let mut left: Vec<&Profile> = profiles.iter().filter(|profile| !tried.contains(&profile.id)).collect();
        left.sort_by_key(|profile| pinned != Some(&profile.id));
        let awake = left.iter().find(|profile| rest(&state, profile).is_none()).copied();
        let soonest = || left.iter().min_by_key(|profile| rest(&state, profile)).copied();
        let chosen = match awake {
            Some(profile) => profile.clone(),
            None => {
                let Some(soonest) = soonest() else {
                    let message = format!("there is no key for the provider `{provider}`");
                    return Err(ModelError::new(ErrorKind::Authentication, message));
                };
                if has_fallback || !tried.is_empty() {
                    let wait = rest(&state, soonest).unwrap_or_default();
                    let message = format!("all keys of the provider `{provider}` rest for {} s", wait.as_secs());
                    return Err(ModelError::new(ErrorKind::RateLimit, message).retry(Retry::No));
                }
                soonest.clone()
            }
        };
        if let Some(pin) = pin {
            if state.pins.len() >= MOST_PINS {
                state.pins.clear();
            }
            state.pins.insert(pin, chosen.id.clone());
        }
        Ok(chosen)
    }

    /// Returns a key to use next.
    pub(crate) async fn get(
        &self,
        provider: &str,
        session: Option<&str>,
        tried: &[String],
        has_fallback: bool,
    ) -> Result<Key, ModelError> {
        let mut tried = tried.to_vec();
        let mut first = None;
        loop {
            let profile = match self.choose(provider, session, &tried, has_fallback) {
                Ok(profile) => profile,
                Err(error) => return Err(first.unwrap_or(error)),
            };
            match self.found(provider, &profile).await {
                Ok(secret) => return Ok(Key { profile: profile.id, secret }),
                // One key that cannot be had must not keep the others from being used.
                Err(error) => {
                    self.failed(provider, &profile.id, &error);
                    tried.push(profile.id);
                    first.get_or_insert(error);
                }
            }
        }
    }

    /// Looks a key up, once.
    async fn found(&self, provider: &str, profile: &Profile) -> Result<Option<Secret>, ModelError> {
        let at = (provider.to_owned(), profile.id.clone());
        let known = self.lock().found.get(&at).cloned();
        let find = match (known, &profile.find) {
            (Some(known), _) => return Ok(known),
            (None, None) => return Ok(None),
            (None, Some(find)) => Arc::clone(find),
        };
        let found = tokio::task::spawn_blocking(move || find()).await;
        let found = found.unwrap_or_else(|_| Err("it could not be looked up".to_owned()));
        let secret = found.map_err(|why| {
            let message = format!("there is no key for the provider `{provider}` (`{}`): {why}", profile.id);
            ModelError::new(ErrorKind::Authentication, message)
        })?;
        self.lock().found.insert(at, Some(secret.clone()));
        Ok(Some(secret))
    }

    /// Lets a key rest after a failure that is its own. Returns whether it was one.
    pub(crate) fn failed(&self, provider: &str, profile: &str, error: &ModelError) -> bool {
        let at = (provider.to_owned(), profile.to_owned());
        let mut state = self.lock();
        // Requests that were under way together fail together: that is one failure.
        let before = state.resting.get(&at);
        let failures = before.map_or(1, |rest| rest.failures + u32::from(rest.until <= Instant::now()));
        let usual = FIRST_REST.saturating_mul(5_u32.saturating_pow(failures - 1)).min(LONGEST_REST);
        let rest = match (error.kind, error.retry) {
            (ErrorKind::Quota, _) => UNPAID_REST,
            (ErrorKind::RateLimit, Retry::After(after)) => after,
            (ErrorKind::RateLimit | ErrorKind::Authentication, _) => usual,
            _ => return false,
        };
        if error.kind == ErrorKind::Authentication {
            // A new key may be in the file by now.
            state.found.remove(&at);
        }
        state.resting.insert(at, Rest { until: Instant::now() + rest, failures });
        true
    }

    /// Returns whether a key is left that was not tried and does not rest.
    pub(crate) fn has_other(&self, provider: &str, tried: &[String]) -> bool {
        let state = self.lock();
        let rests = |profile: &Profile| {
            let rest = state.resting.get(&(provider.to_owned(), profile.id.clone()));
            rest.is_some_and(|rest| rest.until > Instant::now())
        };
        let profiles = self.profiles.get(provider).into_iter().flatten();
        profiles.filter(|profile| !tried.contains(&profile.id)).any(|profile| !rests(profile))
    }

    /// Forgets the failures of a key that works.
    pub(crate) fn worked(&self, provider: &str, profile: &str) {
        self.lock().resting.remove(&(provider.to_owned(), profile.to_owned()));
    }

    /// Returns the keys that have been used so far. No message may show them.
    pub(crate) fn secrets(&self) -> Vec<String> {
        self.lock().found.values().flatten().map(|secret| secret.expose().to_owned()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(ids: &[&str]) -> Keys {
        let profile = |id: &&str| {
            let text: Arc<str> = format!("key of {id}").into();
            Profile { id: (*id).to_owned(), find: Some(Arc::new(move || Ok(Secret::new(Arc::clone(&text))))) }
        };
        Keys::new(BTreeMap::from([("p".to_owned(), ids.iter().map(profile).collect())]))
    }

    fn error(kind: ErrorKind) -> ModelError {
        ModelError::new(kind, "")
    }

    #[tokio::test]
    async fn a_key_that_failed_rests_and_a_session_keeps_its_own() {
        let keys = keys(&["a", "b"]);
        let profile =
            async |session: Option<&'static str>| keys.get("p", session, &[], false).await.map(|key| key.profile);
        assert_eq!(profile(Some("s")).await.as_deref(), Ok("a"));
        assert!(keys.failed("p", "a", &error(ErrorKind::RateLimit)));
        assert_eq!(profile(Some("s")).await.as_deref(), Ok("b"), "the session moves on");
        keys.worked("p", "a");
        assert_eq!(profile(Some("s")).await.as_deref(), Ok("b"), "and stays there");
        assert_eq!(profile(Some("t")).await.as_deref(), Ok("a"));
        assert!(!keys.failed("p", "a", &error(ErrorKind::Overloaded)), "no fault of the key");
        assert_eq!(profile(None).await.as_deref(), Ok("a"));
    }

    #[tokio::test]
    async fn when_all_keys_rest_another_model_is_asked_or_the_first_to_wake() {
        let keys = keys(&["a", "b"]);
        let after = |seconds| error(ErrorKind::RateLimit).retry(Retry::After(Duration::from_secs(seconds)));
        keys.failed("p", "a", &after(500));
        keys.failed("p", "b", &after(100));
        assert_eq!(keys.get("p", None, &[], false).await.expect("a key").profile, "b");
        let refused = keys.get("p", None, &[], true).await.expect_err("another model is asked");
        assert_eq!((refused.kind, refused.retry), (ErrorKind::RateLimit, Retry::No));
        let unknown = keys.get("q", None, &[], false).await.expect_err("no such provider");
        assert_eq!(unknown.kind, ErrorKind::Authentication);
    }

    #[tokio::test]
    async fn failures_at_the_same_time_are_one() {
        let keys = keys(&["a"]);
        for _ in 0..5 {
            keys.failed("p", "a", &error(ErrorKind::RateLimit));
        }
        let state = keys.lock();
        let rest = &state.resting[&("p".to_owned(), "a".to_owned())];
        assert!(rest.failures == 1 && rest.until <= Instant::now() + FIRST_REST);
    }

    #[tokio::test]
    async fn a_key_that_cannot_be_had_keeps_no_other_from_being_used() {
        let lost: Arc<Find> = Arc::new(|| Err("it is not set".to_owned()));
        let mut keys = keys(&["b"]);
        let profiles = keys.profiles.get_mut("p").expect("a provider");
        profiles.insert(0, Profile { id: "a".into(), find: Some(Arc::clone(&lost)) });
        assert_eq!(keys.get("p", None, &[], false).await.expect("a key").profile, "b");
        let alone = Keys::new(BTreeMap::from([("p".to_owned(), vec![Profile { id: "a".into(), find: Some(lost) }])]));
        for _ in 0..2 {
            let error = alone.get("p", None, &[], false).await.expect_err("no key");
            assert!(error.message.contains("(`a`): it is not set"), "{error}");
        }
    }

    #[tokio::test]
    async fn a_key_is_looked_up_again_after_it_was_refused() {
        let count = Arc::new(Mutex::new(0));
        let counted = Arc::clone(&count);
        let find: Arc<Find> = Arc::new(move || {
            *counted.lock().expect("a count") += 1;
            Ok(Secret::new("k"))
        });
        let keys = Keys::new(BTreeMap::from([("p".to_owned(), vec![Profile { id: "a".into(), find: Some(find) }])]));
        for _ in 0..3 {
            keys.get("p", None, &[], false).await.expect("a key");
        }
        assert_eq!(*count.lock().expect("a count"), 1);
        keys.failed("p", "a", &error(ErrorKind::Authentication));
        keys.get("p", None, &[], false).await.expect("a key");
        assert_eq!(*count.lock().expect("a count"), 2);
        assert!(!format!("{:?}", keys.get("p", None, &[], false).await).contains("k\""));
    }
}
