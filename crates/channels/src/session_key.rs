//! Which session a message belongs to.

use pincer_config::keys::{self, DmScope};
use pincer_sessions::key_complaint;
use sha2::{Digest, Sha256};

use crate::Received;

/// The session that the command line uses.
const MAIN: &str = "main";
/// The bytes of a key that is too long which are kept in front of its digest.
const KEPT: usize = 400;

/// Returns the key of the session that a message belongs to.
pub fn session_key(channel: &str, settings: &keys::Channel, scope: DmScope, message: &Received) -> String {
    let kind = if message.group.is_some() { "group" } else { "dm" };
    let conversation = message.group.as_ref().unwrap_or(&message.sender);
    let key = match &settings.session {
        Some(template) => filled(template, |name| match name {
            "channel" => channel.to_owned(),
            "kind" => kind.to_owned(),
            "conversation" => escaped(conversation),
            "sender" => escaped(&message.sender),
            "account" => message.account.as_deref().map_or("-".into(), escaped),
            _ => message.thread.as_deref().map_or("-".into(), escaped),
        }),
        None if scope == DmScope::Main && message.group.is_none() => MAIN.to_owned(),
        None => {
            let account = message.account.as_deref().map(|account| format!(":account:{}", escaped(account)));
            let thread = message.thread.as_deref().map(|thread| format!(":thread:{}", escaped(thread)));
            let (account, thread) = (account.unwrap_or_default(), thread.unwrap_or_default());
            format!("{channel}{account}:{kind}:{}{thread}", escaped(conversation))
        }
    };
    // The longest and the empty one are no keys.
    match key_complaint(&key) {
        None => key,
        Some(_) => {
            let digest: String = Sha256::digest(key.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
            format!("{}~{digest}", &key[..key.floor_char_boundary(KEPT)])
        }
    }
}

fn filled(template: &str, value: impl Fn(&str) -> String) -> String {
    let (mut key, mut rest) = (String::new(), template);
    // The config was checked: each bracket is one of a placeholder.
    while let Some((before, (name, after))) =
        rest.split_once('{').and_then(|(before, rest)| Some((before, rest.split_once('}')?)))
    {
        key.push_str(before);
        key.push_str(&value(name));
        rest = after;
    }
    key + rest
}

/// Returns an id of a channel without what could make it look like several parts of a key, or like nothing.
fn escaped(id: &str) -> String {
    let mut escaped = String::new();
    for letter in id.chars() {
        match letter {
            ':' | '%' => escaped.push_str(&format!("%{:02X}", letter as u32)),
            letter if letter.is_control() => escaped.push_str(&format!("%{:02X}", letter as u32)),
            letter => escaped.push(letter),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(sender: &str, group: Option<&str>, thread: Option<&str>) -> Received {
        Received {
            sender: sender.into(),
            group: group.map(str::to_owned),
            thread: thread.map(str::to_owned),
            ..Received::default()
        }
    }

    fn key(template: Option<&str>, scope: DmScope, message: &Received) -> String {
        let settings = keys::Channel { session: template.map(str::to_owned), ..keys::Channel::default() };
        session_key("irc", &settings, scope, message)
    }

    #[test]
    fn a_message_belongs_to_the_session_of_its_conversation() {
        let (usual, main) = (DmScope::PerChannelPeer, DmScope::Main);
        let (direct, group) = (message("ann", None, None), message("ann", Some("#lounge"), None));
        let thread = message("ann", Some("#lounge"), Some("t1"));
        for (template, scope, message, expected) in [
            (None, usual, &direct, "irc:dm:ann"),
            (None, main, &direct, "main"),
            (None, main, &group, "irc:group:#lounge"),
            (None, usual, &thread, "irc:group:#lounge:thread:t1"),
            (Some("team"), usual, &direct, "team"),
            (
                Some("{channel}/{kind}/{conversation}/{sender}/{thread}{account}"),
                main,
                &group,
                "irc/group/#lounge/ann/--",
            ),
        ] {
            assert_eq!(key(template, scope, message), expected);
        }
        let account = Received { account: Some("work".into()), ..direct };
        assert_eq!(key(None, usual, &account), "irc:account:work:dm:ann");
    }

    #[test]
    fn no_id_leads_into_the_session_of_another() {
        let usual = DmScope::PerChannelPeer;
        let forged =
            [message("x:thread:y", None, None), message("x", None, Some("y")), message("x%3Athread%3Ay", None, None)];
        let keys = forged.map(|message| key(None, usual, &message));
        assert_eq!(keys, ["irc:dm:x%3Athread%3Ay", "irc:dm:x:thread:y", "irc:dm:x%253Athread%253Ay"]);
        let long = |end: char| key(None, usual, &message(&format!("{}{end}", "ä".repeat(400)), None, None));
        assert!(long('a') != long('b') && key_complaint(&long('a')).is_none());
        assert_eq!(key(None, usual, &message("a\nb", None, None)), "irc:dm:a%0Ab");
    }
}
