//! Test MCP servers, a faulty store and the fixtures of tests, for tests only. None does anything to the machine it runs on.
//!
//! `mcp-fixture stdio` and `mcp-fixture http ADDR` serve [`fixture`]: a server that does everything right, with all that the
//! official conformance suite looks for. Over HTTP it is at `/mcp`.
//!
//! `mcp-liar MODE` and `mcp-liar MODE http ADDR` serve [`liar`]: a server that does one thing wrong.
//!
//! `mcp-liar catalog FILE [SERVER]` lies about nothing: it lists the tools of a file, one per line as
//! `{server?, name, description?, inputSchema, …}`, of all servers or of one.
//!
//! `mcp-client URL` is no server: it is Pincer's client, for the suite's scenarios of clients.
//!
//! [`faulty`] is no server either: it is a store that fails, hangs or ends its process at the n-th call. [`house`] is a runtime with
//! tools of a test, [`doorway`] a door alone, and [`tools`] has the tools for both.
//!
//! With `http` both servers print the address they got as the first line, so that the port can be 0.
//!
//! | mode | what is wrong | tools |
//! |---|---|---|
//! | `cycles` | schemas: `$ref` to itself, to each other, to nowhere, to another machine; deep; an enum of 10,000 | one per schema |
//! | `many` | 5000 tools over pages of 100 | `tool_0000` … |
//! | `names` | names with spaces, quotes, line breaks, Unicode; keywords; empty; 300 characters; alike but for case | one per name |
//! | `duplicates` | a name twice, and `nextCursor` is the same on every page | `twin`, `twin`, `single` |
//! | `changing` | `swap` replaces a tool and says so | `swap`, `old` or `new` |
//! | `huge` | `huge` returns `bytes` of text, 50 MB if not said | `huge`, `small` |
//! | `invalid-json` | the call is answered with half an object | `broken`, `fine` |
//! | `silent`, `silent-init` | calls are not answered; nor is the handshake | `echo` |
//! | `crash`, `crash-start` | exits with code 7 and a line on stderr: amid an answer; at once | `echo` |
//! | `noise` | log lines between the messages (stdio) | `echo` |
//! | `drip` | calls are answered with a byte every 20 ms | `echo` |
//! | `wrong-ids` | answers that nobody asked for, answers twice, unknown notifications and requests | `echo` |
//! | `bad-tools` | malformed entries in the list among good ones | `first`, `last`, and others |
//! | `bad-result` | results of the wrong shape | one per shape, `good` |
//! | `redirect` | 307, or the 302 of `LIAR_STATUS`, to `LIAR_TARGET` (HTTP) | |
//! | `unauthorized` | 401 with a challenge (HTTP) | `echo` |
//! | `expired` | 401 from the third request with the same token on (HTTP) | `echo` |
//! | `rate` | 429 with `Retry-After: 1` twice (HTTP; calls only) | `echo` |
//! | `error500` | 500 with a page of HTML (HTTP) | `echo` |
//! | `slow-start` | the handshake takes 3 seconds, or until there is the file `LIAR_UNTIL` | `echo` |
//! | `elicit`, `sample` | nothing: the call asks the client, and returns what it said (stdio) | `echo` |
//! | `binary` | nothing: an image, a sound and a blob of `bytes` zeros, 1024 if not said | `binary` |
//! | `flaky-list` | the first `tools/list` fails | `echo` |
//! | `deaf` | once it is called it reads no more, and lives on (stdio) | `echo` |
//! | `flood` | `count` messages with `bytes` of text before the answer (stdio) | `progress`, `log`, `changed`, `updated`, `ping`, `ask` |
//! | `endless` | every page of the list has a new `nextCursor` | `tool_0` … |
//! | `fat` | descriptions of 2 MB and, ten times fifty, of 100 KB | `thin`, `fattest`, `fat_1_0` … |
//! | `restless` | the list changes whenever somebody asks for it, or so it says | `echo` |
//! | `hints` | tools that say they are harmless, or are called what is no tool | `look`, `again`, `plain`, `resources/read`, `prompts/get` |
//!
//! The modes of HTTP refuse every request; `LIAR_AT=tools/call` lets all others pass. `LIAR_DEPTH` is how deep the schema in
//! `cycles` is: from about 60 on, parsers with a limit on depth refuse the whole list.

pub mod doorway;
pub mod faulty;
pub mod fixture;
pub mod house;
pub mod liar;
pub mod tools;

use std::io::{Error, ErrorKind, Result};
use std::path::PathBuf;

/// Where `mcp-fixture` or `mcp-liar` is, for the tests of other crates, which cargo does not tell. Both are built with all else by
/// `cargo test --workspace`.
///
/// # Errors
/// When it was not built.
pub fn program(name: &str) -> Result<PathBuf> {
    let file = format!("{name}{}", std::env::consts::EXE_SUFFIX);
    // A test is in the directory `deps` beside the binaries.
    let found = std::env::current_exe()?.ancestors().skip(1).map(|place| place.join(&file)).find(|path| path.is_file());
    found.ok_or_else(|| Error::new(ErrorKind::NotFound, format!("{name} is not there: cargo build -p pincer-testkit")))
}
