//! Words for messages: which known ones are close to one that is not, and how a long text is shown.

/// Up to `most` of the values whose spelling is close to `asked`, closest first. `known` has pairs of spelling and value; a
/// value is returned once.
pub fn nearest(asked: &str, known: impl IntoIterator<Item = (String, String)>, most: usize) -> Vec<String> {
    let asked = asked.to_lowercase();
    let mut found: Vec<(usize, String)> = Vec::new();
    for (spelling, value) in known {
        let spelling = spelling.to_lowercase();
        // A third of the letters may be wrong; a part of a longer name counts as a small mistake.
        let allowed = asked.chars().count().max(spelling.chars().count()) / 3;
        let contained =
            asked.len() >= 3 && (spelling.contains(&asked) || asked.contains(&spelling) && spelling.len() >= 3);
        match distance(&asked, &spelling, allowed) {
            Some(distance) => found.push((distance, value)),
            None if contained => found.push((allowed + 1, value)),
            None => {}
        }
    }
    found.sort();
    let mut values: Vec<String> = Vec::new();
    for (_, value) in found {
        if !values.contains(&value) {
            values.push(value);
        }
    }
    values.truncate(most);
    values
}

/// Edits between two words (insert, delete, replace, swap neighbours), if at most `allowed`.
fn distance(a: &str, b: &str, allowed: usize) -> Option<usize> {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    if a.len().abs_diff(b.len()) > allowed {
        return None;
    }
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let replaced = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            row[j] = replaced.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before_last[j - 2] + 1);
            }
        }
        before_last = std::mem::replace(&mut last, row);
    }
    Some(last[b.len()]).filter(|distance| *distance <= allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn close_spellings_come_first_and_far_ones_not_at_all() {
        let known = ["read", "write", "web_fetch", "web_search"].map(|name| (name.to_owned(), name.to_owned()));
        let near = |asked: &str| nearest(asked, known.clone(), 2);
        assert_eq!(near("raed"), ["read"]);
        assert_eq!(near("websearch"), ["web_search"]);
        assert_eq!(near("WEB_FETHC"), ["web_fetch"]);
        assert_eq!(near("fetch"), ["web_fetch"]);
        assert_eq!(near("delete"), Vec::<String>::new());
        assert_eq!(near(""), Vec::<String>::new());
    }
}
