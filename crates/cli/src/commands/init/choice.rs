//! Which model to suggest, of those that a provider says it has.

use std::cmp::Reverse;

/// Families of models that suit an agent, best first, by the beginning of their names. A model is suggested only if its provider
/// lists it, so an outdated entry here costs a worse suggestion, never a wrong name.
const FAMILIES: &[(&str, &[&str])] = &[
    ("anthropic", &["claude-sonnet-", "claude-opus-", "claude-"]),
    ("openai", &["gpt-"]),
    ("google", &["models/gemini-", "gemini-"]),
    ("openrouter", &["openrouter/auto", "anthropic/claude-sonnet-", "openai/gpt-"]),
    ("mistral", &["mistral-large-latest", "mistral-medium-latest", "mistral-"]),
    ("deepseek", &["deepseek-chat"]),
    ("xai", &["grok-"]),
    ("moonshot", &["kimi-"]),
];

/// Parts of names that tell models which are no use to an agent.
const NO_CHAT: &[&str] = &[
    "audio",
    "babbage",
    "clip",
    "dall-e",
    "davinci",
    "embed",
    "flux",
    "guard",
    "image",
    "lyria",
    "moderation",
    "ocr",
    "realtime",
    "rerank",
    "sora",
    "speech",
    "stable-diffusion",
    "transcribe",
    "tts",
    "veo",
    "whisper",
];

/// The longest name that is shown.
const MOST_CHARACTERS: usize = 200;

/// Returns the models that an agent can use, the best guess first; in the order of the list where nothing is known.
pub(super) fn ranked(provider: &str, listed: Vec<String>) -> Vec<String> {
    let families = FAMILIES.iter().find(|(id, _)| *id == provider).map_or(&[][..], |(_, families)| families);
    let mut models: Vec<String> = listed.into_iter().filter(|model| is_plain(model) && is_chat(model)).collect();
    let place = |model: &String| families.iter().position(|family| model.starts_with(family));
    models.sort_by_key(|model| match place(model) {
        // The newest version, and of its variants the one without an ending.
        Some(family) => (family, Reverse(version(model)), model.len()),
        None => (families.len(), Reverse((0, 0)), 0),
    });
    models
}

/// Whether a name can stand in a config and on a terminal as it is: a server could have any text in its list.
pub(super) fn is_plain(model: &str) -> bool {
    let plain = |c: char| c.is_ascii_graphic() && !matches!(c, '$' | '"' | '\'' | '\\' | '`');
    !model.is_empty() && model.len() <= MOST_CHARACTERS && model.chars().all(plain)
}

fn is_chat(model: &str) -> bool {
    let name = model.to_ascii_lowercase();
    !NO_CHAT.iter().any(|part| name.contains(part))
}

/// `gpt-5.2`, `claude-sonnet-4-5-20250929`: the first number, with the one behind it. Longer ones are dates.
fn version(model: &str) -> (u32, u32) {
    let parts: Vec<&str> = model.split(['-', '.']).collect();
    let number = |part: &&str| if part.len() <= 2 { part.parse::<u32>().ok() } else { None };
    let Some(first) = parts.iter().position(|part| number(part).is_some()) else { return (0, 0) };
    (number(&parts[first]).unwrap_or(0), parts.get(first + 1).and_then(number).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(provider: &str, listed: &[&str]) -> Option<String> {
        ranked(provider, listed.iter().map(|model| (*model).to_owned()).collect()).into_iter().next()
    }

    #[test]
    fn the_newest_of_the_best_family_is_suggested() {
        for (provider, listed, expected) in [
            ("anthropic", &["claude-opus-4-5", "claude-sonnet-4-20250514", "claude-sonnet-4-5-20250929"][..], 2),
            ("openai", &["gpt-4-0613", "gpt-5.2-pro", "gpt-5.2", "gpt-5.2-2025-12-11", "gpt-5"], 2),
            ("openai", &["text-embedding-3-large", "gpt-image-1", "gpt-4.1"], 2),
            ("google", &["models/gemini-2.5-pro", "models/gemini-3-pro-preview", "models/veo-3"], 1),
            ("groq", &["whisper-large-v3", "b-model", "a-model"], 1),
            ("ollama", &["nomic-embed-text", "qwen3:8b", "llama3"], 1),
        ] {
            assert_eq!(first(provider, listed).as_deref(), Some(listed[expected]), "{provider} {listed:?}");
        }
    }

    #[test]
    fn names_that_could_do_something_in_a_config_or_on_a_terminal_are_left_out() {
        assert_eq!(first("ollama", &["${HOME}", "a\nb", "\u{1b}[2J", "a\"b", ""]), None);
        assert_eq!(first("ollama", &["nomic-embed-text"]), None);
        assert_eq!(first("ollama", &["hf.co/org/model:Q4_K_M"]).as_deref(), Some("hf.co/org/model:Q4_K_M"));
    }
}
