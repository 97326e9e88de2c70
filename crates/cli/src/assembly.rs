//! From the config to the one door: tools, hooks, rules.

use std::sync::Arc;
use std::time::Duration;

use pincer_catalog::PolicyError;
use pincer_config::Config;
use pincer_config::keys::Decision;
use pincer_tools::hooks::{CommandHook, Hook};
use pincer_tools::{ApprovalRule, Door, DoorBuilder, Matcher, Redactor, RuleDecision};
use regex::Regex;

/// A door as the config describes it, still without a store.
pub(crate) fn door(config: &Config) -> Result<DoorBuilder, PolicyError> {
    let mut door = Door::builder().redactor(redactor(config));
    for (index, hook) in config.hooks.before_tool_call.iter().enumerate() {
        let at = format!("hooks.before_tool_call[{index}]");
        let matcher = Matcher::parse(&format!("{at}.matcher"), hook.matcher.names())?;
        let command = hook.command.words();
        door = door.hook(Hook {
            name: at,
            matcher,
            priority: hook.priority,
            timeout: Duration::from_millis(hook.timeout_ms),
            hook: Arc::new(CommandHook { command }),
        });
    }
    for (index, rule) in config.approvals.rules.iter().enumerate() {
        let matcher = Matcher::parse(&format!("approvals.rules[{index}].match"), rule.matches.names())?;
        door = door.rule(ApprovalRule { matcher, decision: decision(rule.decision) });
    }
    if let Some(seconds) = config.approvals.expire_after_seconds {
        door = door.approval_lifetime(Duration::from_secs(seconds));
    }
    Ok(door)
}

/// What may be shown. The patterns have been checked with the config.
pub(crate) fn redactor(config: &Config) -> Redactor {
    let patterns = config.logging.redact_patterns.iter().filter_map(|pattern| Regex::new(pattern).ok()).collect();
    Redactor { patterns, ..Redactor::default() }
}

fn decision(decision: Decision) -> RuleDecision {
    match decision {
        Decision::Ask => RuleDecision::Ask,
        Decision::Allow => RuleDecision::Allow,
        Decision::Deny => RuleDecision::Deny,
    }
}
