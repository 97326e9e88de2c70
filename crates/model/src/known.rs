//! Facts that names of models tell, where no setting does. A name that is not known here is taken for a plain model.

use crate::message::Api;
use crate::thinking::{Level, Reasoning};

/// A well-known provider: nothing but a key is needed to use it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preset {
    /// Its id.
    pub id: &'static str,
    /// Its address.
    pub base_url: &'static str,
    /// Its format.
    pub api: Api,
    /// The variables that usually have its key, the first that is set. None needs no key.
    pub variables: &'static [&'static str],
}

const fn preset(id: &'static str, base_url: &'static str, api: Api, variables: &'static [&'static str]) -> Preset {
    Preset { id, base_url, api, variables }
}

/// The well-known providers.
pub const PRESETS: &[Preset] = &[
    preset("anthropic", "https://api.anthropic.com", Api::Messages, &["ANTHROPIC_API_KEY"]),
    preset("openai", "https://api.openai.com/v1", Api::Responses, &["OPENAI_API_KEY"]),
    preset(
        "google",
        "https://generativelanguage.googleapis.com/v1beta/openai",
        Api::ChatCompletions,
        &["GEMINI_API_KEY", "GOOGLE_API_KEY"],
    ),
    preset("openrouter", "https://openrouter.ai/api/v1", Api::ChatCompletions, &["OPENROUTER_API_KEY"]),
    preset("groq", "https://api.groq.com/openai/v1", Api::ChatCompletions, &["GROQ_API_KEY"]),
    preset("mistral", "https://api.mistral.ai/v1", Api::ChatCompletions, &["MISTRAL_API_KEY"]),
    preset("deepseek", "https://api.deepseek.com/v1", Api::ChatCompletions, &["DEEPSEEK_API_KEY"]),
    preset("xai", "https://api.x.ai/v1", Api::ChatCompletions, &["XAI_API_KEY"]),
    preset("together", "https://api.together.xyz/v1", Api::ChatCompletions, &["TOGETHER_API_KEY"]),
    preset("fireworks", "https://api.fireworks.ai/inference/v1", Api::ChatCompletions, &["FIREWORKS_API_KEY"]),
    preset("cerebras", "https://api.cerebras.ai/v1", Api::ChatCompletions, &["CEREBRAS_API_KEY"]),
    preset("moonshot", "https://api.moonshot.ai/v1", Api::ChatCompletions, &["MOONSHOT_API_KEY"]),
    preset("ollama", "http://127.0.0.1:11434/v1", Api::ChatCompletions, &[]),
    preset("lmstudio", "http://127.0.0.1:1234/v1", Api::ChatCompletions, &[]),
    preset("llamacpp", "http://127.0.0.1:8080/v1", Api::ChatCompletions, &[]),
    preset("vllm", "http://127.0.0.1:8000/v1", Api::ChatCompletions, &[]),
];

/// Returns the well-known provider of this id.
pub fn known_provider(id: &str) -> Option<&'static Preset> {
    PRESETS.iter().find(|preset| preset.id == id)
}

/// Returns how a model thinks, by its name.
pub(crate) fn reasoning(api: Api, model: &str) -> Reasoning {
    use Level::{High, Low, Max, Medium, Minimal, Off, XHigh};
    // `vendor/model` at a provider that serves the models of many.
    let name = model.rsplit('/').next().unwrap_or(model).to_ascii_lowercase();
    if let Some(rest) = name.strip_prefix("claude-") {
        if api != Api::Messages {
            return Reasoning::None;
        }
        return match claude_version(rest) {
            Some(version) if version < (3, 7) => Reasoning::None,
            Some(version) if version < (4, 6) => Reasoning::Budget,
            _ => Reasoning::Adaptive(vec![Low, Medium, High, Max]),
        };
    }
    if api == Api::Messages {
        return Reasoning::None;
    }
    let is_o = name.strip_prefix('o').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    if is_o || name.starts_with("gpt-oss") {
        return Reasoning::Effort(vec![Low, Medium, High]);
    }
    match name.strip_prefix("gpt-") {
        Some(rest) if rest.starts_with("5.1") => Reasoning::Effort(vec![Off, Low, Medium, High]),
        Some(rest) if rest.starts_with("5.") => Reasoning::Effort(vec![Off, Low, Medium, High, XHigh]),
        Some(rest) if rest.starts_with('5') => Reasoning::Effort(vec![Minimal, Low, Medium, High]),
        Some(rest) if rest.starts_with(|c: char| ('6'..='9').contains(&c)) => {
            Reasoning::Effort(vec![Off, Low, Medium, High, XHigh, Max])
        }
        _ => Reasoning::None,
    }
}

/// `opus-4-5-20251101`, `3-7-sonnet-latest`: the version is the first number, with the one after it if that is no date.
fn claude_version(rest: &str) -> Option<(u32, u32)> {
    let parts: Vec<&str> = rest.split(['-', '.']).collect();
    let number = |part: &&str| part.parse::<u32>().ok().filter(|number| *number < 1000);
    let first = parts.iter().position(|part| number(part).is_some())?;
    Some((number(&parts[first])?, parts.get(first + 1).and_then(number).unwrap_or(0)))
}

/// Returns the most tokens of a reply, for a format that must say so.
pub(crate) fn max_tokens(model: &str) -> u32 {
    let name = model.rsplit('/').next().unwrap_or(model);
    match name.strip_prefix("claude-").and_then(claude_version) {
        Some(version) if version < (3, 7) => 4_096,
        Some(_) => 32_000,
        None => 8_192,
    }
}

/// Returns the tokens that a conversation may have with a well-known model, as its provider serves it.
pub(crate) fn context_window(model: &str) -> Option<u64> {
    let name = model.rsplit('/').next().unwrap_or(model).to_ascii_lowercase();
    if name.starts_with("claude-") {
        return Some(200_000);
    }
    if name.starts_with("gemini-") {
        return Some(1_048_576);
    }
    let is_o = |series: &str| name == series || name.starts_with(&format!("{series}-"));
    if is_o("o1") || is_o("o3") || is_o("o4") {
        // The first ones of the series had less.
        return Some(if name.starts_with("o1-mini") || name.starts_with("o1-preview") { 128_000 } else { 200_000 });
    }
    match name.strip_prefix("gpt-")? {
        rest if rest.starts_with("4o") || rest.starts_with("4-turbo") => Some(128_000),
        rest if rest.starts_with("4.1") => Some(1_047_576),
        rest if rest.starts_with('5') && rest.contains("chat") => Some(128_000),
        // The rest of their window is for the reply alone.
        rest if rest.starts_with('5') => Some(272_000),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_the_windows_of_well_known_models() {
        for (model, expected) in [
            ("claude-sonnet-4-5", Some(200_000)),
            ("anthropic/claude-3-5-haiku-latest", Some(200_000)),
            ("gpt-4o-mini", Some(128_000)),
            ("openai/gpt-4.1", Some(1_047_576)),
            ("gpt-5-mini", Some(272_000)),
            ("gpt-5-chat-latest", Some(128_000)),
            ("o1-mini", Some(128_000)),
            ("o3", Some(200_000)),
            ("gemini-2.5-pro", Some(1_048_576)),
            ("gpt-3.5-turbo", None),
            ("gpt-oss-20b", None),
            ("olmo-2", None),
            ("qwen3", None),
        ] {
            assert_eq!(context_window(model), expected, "{model}");
        }
    }

    #[test]
    fn names_tell_how_models_think() {
        let levels = |api, model: &str| reasoning(api, model);
        assert_eq!(levels(Api::Messages, "claude-3-5-haiku-latest"), Reasoning::None);
        assert_eq!(levels(Api::Messages, "claude-3-7-sonnet-20250219"), Reasoning::Budget);
        assert_eq!(levels(Api::Messages, "claude-opus-4-20250514"), Reasoning::Budget);
        assert_eq!(levels(Api::Messages, "claude-sonnet-4-5"), Reasoning::Budget);
        assert!(matches!(levels(Api::Messages, "claude-opus-4-6"), Reasoning::Adaptive(_)));
        assert!(matches!(levels(Api::Messages, "claude-next"), Reasoning::Adaptive(_)));
        assert_eq!(levels(Api::ChatCompletions, "anthropic/claude-opus-4-6"), Reasoning::None);
        assert_eq!(levels(Api::ChatCompletions, "gpt-4o"), Reasoning::None);
        assert_eq!(levels(Api::ChatCompletions, "openai/gpt-4.1"), Reasoning::None);
        assert!(
            matches!(levels(Api::Responses, "gpt-5-mini"), Reasoning::Effort(levels) if !levels.contains(&Level::Off))
        );
        assert!(
            matches!(levels(Api::Responses, "gpt-5.2"), Reasoning::Effort(levels) if levels.contains(&Level::XHigh))
        );
        assert!(matches!(levels(Api::Responses, "o4-mini"), Reasoning::Effort(_)));
        assert_eq!(levels(Api::ChatCompletions, "olmo-2"), Reasoning::None);
        assert_eq!(levels(Api::ChatCompletions, "qwen3"), Reasoning::None);
    }
}
