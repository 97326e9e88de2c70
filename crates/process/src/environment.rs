//! The environment that other programs get of ours.

use pincer_secrecy::is_secret_variable;

/// Returns the environment of this process for other programs: without secrets, but for those in `pass`.
pub fn clean_environment(pass: &[String]) -> Vec<(String, String)> {
    let own =
        std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    own.filter(|(name, value)| pass.contains(name) || !name.starts_with("PINCER_") && !is_secret_variable(name, value))
        .collect()
}
