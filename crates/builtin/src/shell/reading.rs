//! Programs that only read, and the options with which they do.
//!
//! A table lists what is known to be harmless; every other option, and every other program, is not in it. An option in a table runs
//! without a person being asked, so a line here says that the option starts no program, writes no file and changes nothing. The
//! command is confined besides: a mistake here still writes nothing.

/// The options of one program that only read.
struct Table {
    /// Names, separated by spaces.
    programs: &'static str,
    /// Letters behind one dash.
    letters: &'static str,
    /// Letters with a value: the rest of the word is that. A value in the next word is judged like every other word, so that it
    /// does not matter whether the program takes it for one.
    valued: &'static str,
    /// Whole words: long options, also those that some programs write with one dash. A value may follow a `=`.
    words: &'static str,
    operands: Operands,
}

/// The words that may stand beside the options.
enum Operands {
    Any,
    /// A second file would be written.
    AtMost(usize),
    /// Anything else would set the clock.
    Formats,
}

use Operands::{Any, AtMost, Formats};

const fn table(
    programs: &'static str,
    letters: &'static str,
    valued: &'static str,
    words: &'static str,
    operands: Operands,
) -> Table {
    Table { programs, letters, valued, words, operands }
}

const TABLES: &[Table] = &[
    table("basename", "az", "s", "--multiple --suffix --zero", Any),
    table(
        "cat",
        "AbeEnstTuv",
        "",
        "--number --number-nonblank --show-all --show-ends --show-tabs --squeeze-blank",
        Any,
    ),
    table("cmp", "bls", "in", "--bytes --ignore-initial --print-bytes --quiet --silent", AtMost(4)),
    table("comm", "123z", "", "--check-order --nocheck-order --total", Any),
    table("cut", "nsz", "bcdf", "--bytes --characters --complement --delimiter --fields --only-delimited", Any),
    table("date", "Ru", "I", "--date --iso-8601 --reference --rfc-3339 --utc", Formats),
    table("df", "ahHiklPT", "tx", "--all --human-readable --inodes --local --print-type --total", Any),
    table(
        "diff",
        "abBcdeiNnpqrstTuwy",
        "CUWIxF",
        "--brief --color --context --exclude --ignore-all-space --ignore-blank-lines --ignore-case \
        --ignore-space-change --new-file --recursive --report-identical-files --side-by-side --unified --width",
        Any,
    ),
    table("dirname pwd tac rev nproc whoami groups arch uptime", "", "", "--all", Any),
    table(
        "du",
        "abcDhHklLmPsSx0",
        "dt",
        "--all --apparent-size --bytes --exclude --human-readable --max-depth --summarize --total",
        Any,
    ),
    table("echo", "neE", "", "", Any),
    table("expand fold nl unexpand", "abips", "tw", "--tabs --width --spaces", Any),
    table("false printenv printf sleep true", "", "", "", Any),
    table(
        "file",
        "bhikLNr0",
        "F",
        "--brief --dereference --mime --mime-encoding --mime-type --no-dereference --raw",
        Any,
    ),
    table(
        "find",
        "HLP0123456789",
        "",
        "! ( ) -a -amin -and -atime -cmin -ctime -daystart -depth -empty -executable -false -follow -group -iname \
        -inum -ipath -iregex -links -ls -maxdepth -mindepth -mmin -mount -mtime -name -newer -nogroup -not \
        -nouser -o -or -path -perm -print -print0 -printf -prune -quit -readable -regex -regextype -samefile \
        -size -true -type -user -wholename -writable -xdev",
        Any,
    ),
    table("free", "bghklmtw", "", "--human --total --wide", Any),
    table(
        "grep egrep fgrep",
        "abcEFGHhIiLlnoPqRrsTUvwxZz",
        "ABCDdefm",
        "--after-context --basic-regexp --before-context --binary-files --color --context --count --exclude-dir \
        --exclude --extended-regexp --files-with-matches --files-without-match --fixed-strings --ignore-case \
        --include --invert-match --line-number --line-regexp --max-count --no-filename --no-messages --null \
        --only-matching --perl-regexp --quiet --recursive --regexp --text --with-filename --word-regexp",
        Any,
    ),
    table("head", "qvz0123456789", "cn", "--bytes --lines --quiet --verbose", Any),
    table("id uname", "aGgimnoprsuvz", "", "--all --group --name --user", Any),
    table(
        "jq",
        "acCejMnRrsS",
        "",
        "--arg --argjson --compact-output --exit-status --join-output --null-input --raw-input --raw-output \
        --slurp --sort-keys --tab",
        Any,
    ),
    table(
        "ls",
        "AaBbCcdFfGgHhiklLmNnopQqRrSstUuvXxZ1",
        "ITw",
        "--all --almost-all --classify --color --directory --full-time --group-directories-first --human-readable \
        --ignore --inode --recursive --reverse --size --sort --time-style --time",
        Any,
    ),
    table(
        "md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum cksum sum",
        "bctwz",
        "",
        "--binary --check --ignore-missing --quiet --status --strict --tag --text --warn",
        Any,
    ),
    table("paste", "sz", "d", "--delimiters --serial", Any),
    table("readlink realpath", "efLmnPqsvz", "", "--canonicalize --no-newline --relative-to --zero", Any),
    table(
        "rg",
        "aFHIiLlnNoPqSsUuvwxc.",
        "ABCEegjmMtT",
        "--after-context --before-context --color --column --context --count --files --files-with-matches \
        --fixed-strings --glob --heading --hidden --ignore-case --invert-match --json --line-number --max-count \
        --max-depth --multiline --no-heading --no-ignore --only-matching --pcre2 --regexp --smart-case --sort \
        --stats --type --word-regexp",
        Any,
    ),
    table("seq", "w", "fs", "--equal-width --format --separator", Any),
    table(
        "sort",
        "bCcdfghiMmnRrsuVz",
        "kt",
        "--check --field-separator --general-numeric-sort --human-numeric-sort --ignore-case --key --numeric-sort \
        --reverse --stable --unique --version-sort",
        Any,
    ),
    table("stat", "fLt", "c", "--dereference --file-system --format --printf --terse", Any),
    table("tail", "qvz0123456789", "cn", "--bytes --lines --quiet --verbose", Any),
    table(
        "test [",
        "",
        "",
        "! ( ) -a -b -c -d -e -ef -eq -f -g -G -ge -gt -h -k -L -le -lt -n -ne -N -nt -o -O -ot -p -r -s -S -t -u \
        -w -x -z",
        Any,
    ),
    table("tr", "Ccdst", "", "--complement --delete --squeeze-repeats --truncate-set1", Any),
    table(
        "tree",
        "aAcCdDfFghilnNpQrsStuUvxX",
        "ILP",
        "--dirsfirst --du --filelimit --gitignore --noreport --prune --sort",
        Any,
    ),
    table("uniq", "cdDiuz", "fsw", "--count --ignore-case --repeated --skip-chars --skip-fields --unique", AtMost(1)),
    table("wc", "clLmw", "", "--bytes --chars --lines --max-line-length --words", Any),
    table("which", "a", "", "", Any),
];

/// The commands of git that only read, in the place of programs.
const GIT: &[Table] = &[
    table(
        "log show diff whatchanged",
        "bcDpRsuwz0123456789",
        "CGLMSUn",
        "--abbrev-commit --after --all --author --before --branches --cached --check --color --color-words \
        --committer --date --decorate --diff-filter --dirstat --first-parent --follow --format --full-index \
        --graph --grep --ignore-all-space --ignore-space-change --max-count --merge-base --merges --minimal \
        --name-only --name-status --no-color --no-decorate --no-ext-diff --no-merges --no-patch --no-renames \
        --no-textconv --numstat --oneline --patch --patience --pretty --raw --remotes --reverse --shortstat \
        --since --skip --staged --stat --submodule --summary --tags --topo-order --unified --until --word-diff",
        Any,
    ),
    table("status", "bsvz", "", "--branch --ignored --long --porcelain --short --show-stash --untracked-files", Any),
    table("shortlog", "ens", "", "--email --numbered --summary", Any),
    table("blame annotate", "bcefknpstwMC", "LS", "--line-porcelain --porcelain --root", Any),
    table("branch", "arv", "", "--all --list --merged --no-merged --remotes --show-current --verbose", AtMost(0)),
    table("remote", "v", "", "--verbose", AtMost(0)),
    table("tag", "l", "", "--list", AtMost(0)),
    table("ls-files", "cdmosuz", "x", "--cached --deleted --exclude-standard --modified --others --stage", Any),
    table("ls-tree", "dlrtz", "", "--full-tree --long --name-only --name-status", Any),
    table(
        "rev-parse",
        "q",
        "",
        "--abbrev-ref --git-dir --is-inside-work-tree --short --show-prefix --show-toplevel --verify",
        Any,
    ),
    table("rev-list", "n", "", "--all --count --first-parent --max-count --no-merges --reverse --since", Any),
    table("describe", "", "", "--abbrev --all --always --dirty --long --match --tags", Any),
    table("merge-base", "a", "", "--all --is-ancestor", Any),
    table("cat-file", "epst", "", "", Any),
    table("for-each-ref", "", "", "--contains --count --format --sort", Any),
    table("count-objects", "vH", "", "", Any),
    table("check-ignore", "nqv", "", "--no-index --verbose", Any),
    table(
        "grep",
        "cEFGHhIilLnoPqvwW",
        "ABCem",
        "--cached --count --ignore-case --line-number --name-only --untracked --word-regexp",
        Any,
    ),
];

/// Returns why a program may do more than read with these arguments. `name` is without its directory.
pub(super) fn more_than_reads(name: &str, arguments: &[&str]) -> Option<String> {
    let of = |tables: &'static [Table], name: &str| tables.iter().find(|table| has(table.programs, name));
    if name == "git" {
        let arguments = match arguments {
            ["--no-pager", rest @ ..] => rest,
            all => all,
        };
        return match arguments {
            [] | ["--version"] => None,
            [command, rest @ ..] => match of(GIT, command) {
                Some(table) => complaint(table, &format!("git {command}"), rest),
                None => Some(format!("`git {command}` may do more than read")),
            },
        };
    }
    match of(TABLES, name) {
        Some(table) => complaint(table, name, arguments),
        None => Some(format!("`{name}` may do more than read")),
    }
}

/// Programs that write files or remove them, and do no more with their arguments than that.
const WRITING: &str = "cp mkdir mv rm rmdir touch";

/// Returns whether a program does no more with a path than read or write it. Git is none: what a word means there depends on all
/// others.
pub(super) fn is_ordinary(name: &str) -> bool {
    has(WRITING, name) || TABLES.iter().any(|table| has(table.programs, name))
}

/// Whether a word is among others.
fn has(words: &str, word: &str) -> bool {
    !word.is_empty() && words.split(' ').any(|known| known == word)
}

fn complaint(table: &Table, name: &str, arguments: &[&str]) -> Option<String> {
    let options = arguments.iter().position(|word| *word == "--").unwrap_or(arguments.len());
    let mut operands = arguments.len().saturating_sub(options + 1);
    for word in &arguments[..options] {
        let option = word.split_once('=').map_or(*word, |(option, _)| option);
        if has(table.words, option) || (word.len() > 1 && word.starts_with('-') && are_letters(table, word)) {
            continue;
        }
        if word.len() > 1 && word.starts_with('-') {
            return Some(format!("`{option}` is not known as an option of `{name}` that only reads"));
        }
        operands += 1;
        if matches!(table.operands, Formats) && !word.starts_with('+') {
            return Some(format!("`{name} {word}` may do more than read"));
        }
    }
    match table.operands {
        AtMost(most) if operands > most => Some(format!("`{name}` may do more than read with {operands} arguments")),
        Formats if operands > 0 && options < arguments.len() => Some(format!("`{name}` may do more than read")),
        _ => None,
    }
}

/// Whether a word that begins with a dash is letters that are all in the table.
fn are_letters(table: &Table, word: &str) -> bool {
    let letters = word[1..].split(|letter| table.valued.contains(letter)).next().unwrap_or_default();
    letters.chars().all(|letter| table.letters.contains(letter))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reads(command: &str) -> bool {
        let words: Vec<&str> = command.split(' ').collect();
        more_than_reads(words[0], &words[1..]).is_none()
    }

    #[test]
    fn what_only_reads_is_known() {
        for command in [
            "ls",
            "ls -la --color=never src",
            "cat -n a b",
            "head -n 5 a",
            "head -n5 a",
            "head -5 a",
            "tail -c +3 a",
            "grep -rn --include=*.rs -e x .",
            "grep -A3 x -- -f",
            "sort -t : -k2,2 -u a",
            "sort -t: a",
            "uniq -c a",
            "cut -d, -f1 a",
            "find . -name *.rs -not -path ./target/* -mtime -1 -print0",
            "find . ( -type f -o -type d ) -maxdepth 2",
            "date +%F -u --date=yesterday",
            "test -f a",
            "[ a -nt b ]",
            "git status --short",
            "git --no-pager log --oneline -n 3 -p -- src",
            "git log -5 --format=%H --since=yesterday",
            "git diff --stat HEAD~1",
            "git",
            "wc -l a",
            "du -sh .",
            "jq -r .a f",
            "rg -n --type rust x",
        ] {
            let words: Vec<&str> = command.split(' ').collect();
            assert_eq!(more_than_reads(words[0], &words[1..]), None, "{command}");
        }
    }

    #[test]
    fn what_may_do_more_is_not() {
        for command in [
            "sh",
            "make",
            "tar tf a",
            "tar cfI a b",
            "sort -o a b",
            "sort -uo a b",
            "sort --output=a b",
            "sort --outp=a b",
            "sort --compress-program=x a",
            "sort -T d a",
            "uniq a b",
            "uniq -- a b",
            "uniq - b",
            "uniq -f 1 a b",
            "find . -delete",
            "find . -exec x ;",
            "find . -fprint a",
            "find . -name x -fls a",
            "find . -newerXY a",
            "find -files0-from a",
            "date -s x",
            "date 01010000",
            "date --set=x",
            "tree -o a",
            "tree -Ro a",
            "tree -R",
            "rg --pre x y",
            "rg -z x",
            "rg --hostname-bin=x y",
            "file -C a",
            "file -z a",
            "git log --output=a",
            "git log --outp=a",
            "git diff --ext-diff",
            "git diff --no-index --output a b c",
            "git log --textconv",
            "git grep -Ox y",
            "git grep --open-files-in-pager=x y",
            "git -c alias.x=y x",
            "git -C d log",
            "git branch -D a",
            "git branch a",
            "git tag a",
            "git remote add a b",
            "git commit -m a",
            "git stash",
            "git --exec-path=x log",
            "git cat-file --textconv a",
            "git cat-file --filters a",
            "git ls-remote x",
            "hostname a",
            "env",
            "jq -f a b",
            "jq --from-file=a b",
            "jq -L a b",
            "less a",
            "test -v a",
            "cat --x",
            "ls --color --x",
            "diff --unified --x a b",
            "sort -k --output=a b",
            "grep -e --x",
            "date -I 01010000",
            "date --date 01010000",
            "date -- 01010000",
            "git reflog expire --all",
            "git log --format --output=a",
            "git log -S --output=a",
        ] {
            assert!(!reads(command), "{command}");
        }
    }
}
