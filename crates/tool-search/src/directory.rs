//! The list of tools in the instructions of a model. Only words that are ours to trust stand in it; MCP servers have their name there, as
//! the config has it, and their number of tools.

use pincer_catalog::{Entry, shortened};

/// The most characters of a list.
const MOST: usize = 18_000;
/// The least, however small the window of the model is.
const LEAST: usize = 768;
/// The share of the window that a list may take, in characters for each token of it.
const SHARE: usize = 10;
/// The lengths of descriptions that are tried, one after the other. Names are left out last.
const DESCRIPTIONS: [usize; 5] = [180, 120, 80, 40, 0];

const HEADING: &str = "Available deferred-schema tools:";
const FOOTER: &str = "The schemas of these tools are not shown. Describe a tool with tool_describe before you call it, and call it with \
                      tool_call, or by its exact name. Find the other tools with tool_search.";

/// A tool of the list: the name by which a model calls it, and its entry.
pub type Listed<'a> = (&'a str, &'a Entry);

/// Returns the characters that a list may take in the prompt of a model with a window of so many tokens.
pub fn room(window: Option<u64>) -> usize {
    let share = window.and_then(|tokens| usize::try_from(tokens).ok()).map_or(MOST, |tokens| tokens / SHARE);
    share.clamp(LEAST, MOST)
}

/// Returns the list of these tools, in the order of their names, and of these servers with their numbers of tools. It is the same for the
/// same tools. Returns nothing if there is nothing to list.
pub fn directory(tools: &[Listed<'_>], servers: &[(&str, usize)], room: usize) -> Option<String> {
    let mut tools = tools.to_vec();
    tools.sort_unstable_by_key(|(name, _)| *name);
    if tools.is_empty() && servers.is_empty() {
        return None;
    }
    // The names of tools matter more than those of servers.
    let servers = of_servers(servers, if tools.is_empty() { room / 2 } else { room / 3 });
    let room = room.saturating_sub(HEADING.len() + FOOTER.len() + servers.chars().count() + 2);
    let fitting = DESCRIPTIONS.into_iter().map(|most| lines(&tools, most)).find(|lines| length(lines) <= room);
    let lines = fitting.unwrap_or_else(|| cut(lines(&tools, 0), room));
    let mut text = String::from(HEADING);
    for line in lines {
        text.push('\n');
        text.push_str(&line);
    }
    text.push_str(&servers);
    text.push('\n');
    text.push_str(FOOTER);
    Some(text)
}

fn lines(tools: &[Listed<'_>], most: usize) -> Vec<String> {
    let line = |(name, entry): &Listed<'_>| {
        let words = entry.description.split_whitespace().collect::<Vec<_>>().join(" ");
        match shortened(&words, most) {
            words if most == 0 || words.is_empty() => format!("- {name} ({})", entry.id.owner()),
            words => format!("- {name} ({}): {words}", entry.id.owner()),
        }
    };
    tools.iter().map(line).collect()
}

fn length(lines: &[String]) -> usize {
    lines.iter().map(|line| line.chars().count() + 1).sum()
}

/// Returns the first lines that fit, and one that says how many do not.
fn cut(lines: Vec<String>, room: usize) -> Vec<String> {
    let whole = lines.len();
    let more = |count: usize| format!("- and {count} more, which tool_search finds");
    let mut room = room.saturating_sub(more(whole).len() + 1);
    let mut fitting: Vec<String> = lines
        .into_iter()
        .take_while(|line| {
            let size = line.chars().count() + 1;
            let fits = size <= room;
            room = room.saturating_sub(size);
            fits
        })
        .collect();
    fitting.push(more(whole - fitting.len()));
    fitting
}

/// Returns what is told of servers, in so many characters at most.
fn of_servers(servers: &[(&str, usize)], room: usize) -> String {
    const BEGINNING: &str = "\nMCP servers, each with its number of tools, which tool_search finds: ";
    let room = room.saturating_sub(BEGINNING.len() + 1).min(1_500);
    let (mut text, mut used, mut left) = (String::new(), 0, 0);
    for (name, count) in servers {
        let named = format!("{name} ({count})");
        // Behind it there may have to be room for the number of the others.
        let more = format!(", and {} more", servers.len()).len();
        let size = named.chars().count() + 2;
        match left == 0 && used + size + more <= room {
            true if text.is_empty() => text = named,
            true => text.extend([", ", &named]),
            false => {
                left += 1;
                continue;
            }
        }
        used += size;
    }
    match left {
        0 if text.is_empty() => text,
        0 => format!("{BEGINNING}{text}."),
        left if text.is_empty() => format!("\nThe tools of {left} MCP servers are found with tool_search."),
        left => format!("{BEGINNING}{text}, and {left} more."),
    }
}

#[cfg(test)]
mod tests {
    use pincer_catalog::{Source, ToolId};

    use super::*;

    fn entries(count: usize, description: &str) -> Vec<(String, Entry)> {
        let entry = |number: usize| {
            let name = format!("tool_{number:04}");
            let id = ToolId::new(Source::Openclaw, "core", name.as_str()).expect("an id");
            (name, Entry::new(id, description))
        };
        (0..count).rev().map(entry).collect()
    }

    fn listed(entries: &[(String, Entry)], room: usize) -> String {
        let tools: Vec<Listed<'_>> = entries.iter().map(|(name, entry)| (name.as_str(), entry)).collect();
        directory(&tools, &[], room).expect("a list")
    }

    #[test]
    fn a_list_is_in_the_order_of_names_on_lines_of_their_own() {
        let text = listed(&entries(2, "Does\n- fake (core): a\u{b}thing"), MOST);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], HEADING);
        assert_eq!(lines[1], "- tool_0000 (core): Does - fake (core): a thing");
        assert!(lines[2].starts_with("- tool_0001") && lines.len() == 4, "{text}");
    }

    #[test]
    fn descriptions_are_shortened_before_names_are_left_out() {
        let many = entries(100, &"many words ".repeat(40));
        let (wide, narrow) = (listed(&many, MOST), listed(&many, 6_000));
        assert!(wide.len() <= MOST && narrow.len() <= 6_000, "{} {}", wide.len(), narrow.len());
        assert!(wide.contains("- tool_0099 (core): many") && narrow.contains("- tool_0099 (core)"), "{narrow}");
        let tiny = listed(&many, LEAST);
        assert!(tiny.len() <= LEAST && tiny.contains("- tool_0000 (core)\n") && tiny.contains("more, which"), "{tiny}");
        let left: usize =
            tiny.split("and ").nth(1).and_then(|rest| rest.split(' ').next()?.parse().ok()).expect("a number");
        assert_eq!(tiny.matches("- tool_").count() + left, 100, "each tool is listed or counted");
        assert_eq!(listed(&entries(5_000, "x"), MOST), listed(&entries(5_000, "x"), MOST));
        assert!(listed(&entries(5_000, "x"), MOST).len() <= MOST);
    }

    #[test]
    fn servers_are_names_and_numbers() {
        let text = directory(&[], &[("files", 3), ("github", 35)], MOST).expect("a list");
        assert!(text.contains("files (3), github (35)."), "{text}");
        assert_eq!(directory(&[], &[], MOST), None);
        let names: Vec<String> = (0..999).map(|number| format!("server-{number}")).collect();
        let many: Vec<(&str, usize)> = names.iter().map(|name| (name.as_str(), 1)).collect();
        assert!(directory(&[], &many, MOST).is_some_and(|text| text.len() < 2_500 && text.contains("more.")));
    }

    #[test]
    fn the_whole_text_keeps_to_its_room_and_servers_leave_names_their_place() {
        let names: Vec<String> = (0..999).map(|number| format!("server-with-a-long-name-{number}")).collect();
        for tools in [0, 1, 120, 5_000] {
            let entries = entries(tools, &"many words ".repeat(40));
            let tools: Vec<Listed<'_>> = entries.iter().map(|(name, entry)| (name.as_str(), entry)).collect();
            for servers in [1, 25, 999] {
                let servers: Vec<(&str, usize)> = names.iter().take(servers).map(|name| (name.as_str(), 7)).collect();
                for window in [None, Some(1_000), Some(8_000), Some(64_000)] {
                    let text = directory(&tools, &servers, room(window)).expect("a list");
                    assert!(text.chars().count() <= room(window), "{} {window:?}: {text}", tools.len());
                    assert_eq!(text.contains("- tool_0000"), !tools.is_empty(), "{window:?}: {text}");
                    assert!(text.contains("MCP servers"), "{text}");
                }
            }
        }
    }

    #[test]
    fn the_room_is_a_share_of_the_window() {
        assert_eq!(room(None), 18_000);
        assert_eq!(room(Some(1_000_000)), 18_000);
        assert_eq!(room(Some(64_000)), 6_400);
        assert_eq!(room(Some(1_000)), 768);
    }
}
