//! The ids of calls that are made through a control tool.

/// The most characters of the id of the control tool's own call.
const MOST_PARENT: usize = 120;

/// Returns the id of a call that is made through a control tool: `<control tool>:<its call>:<tool>:<number>`. Ids of models may be
/// anything, so of `parent` only letters, digits, `_` and `-` are kept; where that changes it, a digest of all of it follows, so that two
/// parents never share an id.
pub fn nested_id(control: &str, parent: &str, tool: &str, number: u32) -> String {
    let is_kept = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-');
    if parent.len() <= MOST_PARENT && parent.chars().all(is_kept) {
        return format!("{control}:{parent}:{tool}:{number}");
    }
    let digest = format!("-{:016x}", digest(parent));
    let kept = |letter: char| if is_kept(letter) { letter } else { '_' };
    let parent: String = parent.chars().take(MOST_PARENT - digest.len()).map(kept).collect();
    format!("{control}:{parent}{digest}:{tool}:{number}")
}

/// Returns the FNV-1a digest of a text. Every build makes the same one, so a call keeps its id when another process goes on with it.
fn digest(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |digest, byte| (digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_of_a_model_is_made_harmless_and_stays_its_own() {
        assert_eq!(nested_id("tool_call", "call_1", "read", 3), "tool_call:call_1:read:3");
        let odd = nested_id("tool_call", "a:b/ä\n\"", "read", 0);
        assert!(odd.starts_with("tool_call:a_b____-") && odd.ends_with(":read:0"), "{odd}");
        assert_ne!(odd, nested_id("tool_call", "a/b/ä\n\"", "read", 0));
        assert_eq!(odd, nested_id("tool_call", "a:b/ä\n\"", "read", 0));
        let long = |end: &str| nested_id("c", &format!("{}{end}", "x".repeat(500)), "t", 1);
        assert_eq!(long("a").len(), "c:".len() + MOST_PARENT + ":t:1".len());
        assert_ne!(long("a"), long("b"));
    }
}
