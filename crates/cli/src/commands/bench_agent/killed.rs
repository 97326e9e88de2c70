//! A process is killed while a tool runs, and another one goes on: with the command `pincer agent`, as a person would do it.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use pincer_scripted::{Script, Server};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

use super::tap::{Tap, until_asked};
use super::world::{ANSWER, Mode, scripts};
use crate::cells::Outcome;

/// Is there when the tool runs.
const BEGUN: &str = "begun";
/// A process that takes longer than this hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// The times from the start of the second process.
pub(super) struct Continued {
    /// To the first event of the run in it.
    pub to_event: Vec<Duration>,
    /// To the first byte of its first request to the model.
    pub to_request: Vec<Duration>,
}

/// Kills so many processes in the middle of a run.
pub(super) async fn measure(mode: Mode, kills: u32) -> Outcome<Continued> {
    let mut continued = Continued { to_event: Vec::new(), to_request: Vec::new() };
    for _ in 0..kills {
        let (to_event, to_request) = tokio::time::timeout(PATIENCE, once(mode)).await??;
        continued.to_event.push(to_event);
        continued.to_request.push(to_request);
    }
    Ok(continued)
}

async fn once(mode: Mode) -> Outcome<(Duration, Duration)> {
    let directory = tempfile::tempdir()?;
    let place = directory.path();
    let server = Server::start(Script::parse(&script(mode).to_string())?)?;
    let tap = Tap::start(&server.url())?;
    let config = json!({
        "workspace": ".",
        "models": { "providers": { "scripted": { "baseUrl": format!("{}/v1", tap.url()), "apiKey": "none" } } },
        "agents": { "defaults": { "model": "scripted/scripted" } },
        "tools": { "codeMode": mode == Mode::Program, "exec": { "mode": "full" } },
    });
    std::fs::write(place.join("pincer.json5"), config.to_string())?;

    let (mut first, _) = agent(place, &["-m", "Do it."])?;
    while !place.join(BEGUN).exists() {
        if let Some(status) = first.try_wait()? {
            return Err(format!("the first process ended before it could be killed: {status}").into());
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    first.kill().await?;
    tap.take();

    let began = Instant::now();
    let (mut second, mut lines) = agent(place, &["--continue"])?;
    let (mut taken_over, mut last) = (None, Value::Null);
    while let Some(line) = lines.next_line().await? {
        let at = began.elapsed();
        last = serde_json::from_str(&line)?;
        if last["data"]["phase"] == "taken-over" {
            taken_over.get_or_insert(at);
        }
    }
    second.wait().await?;
    if last["result"]["payloads"][0]["text"] != ANSWER {
        return Err(format!("the second process came to {last}: {:?}", server.complaints()).into());
    }
    let asked = until_asked(&tap.take(), began);
    Ok((taken_over.ok_or("the run was not taken over")?, asked.ok_or("the model was not asked")?))
}

/// A command that runs until the process that started it has been killed, and then the answer.
fn script(mode: Mode) -> Value {
    // It is left behind by the kill, for no longer than this.
    let command = format!("touch {BEGUN}; sleep 2");
    match mode {
        Mode::Direct => {
            let call = json!({ "id": "call_0", "name": "exec", "arguments": { "command": command } });
            scripts::conversation([vec![json!({ "call": call })]])
        }
        Mode::Program => scripts::conversation([scripts::exec(&format!(
            "return await tools.call('openclaw:core:exec', {{ command: '{command}' }}).catch((error) => error.message)"
        ))]),
    }
}

/// Starts `pincer agent` in a directory of its own.
fn agent(place: &Path, arguments: &[&str]) -> Outcome<(Child, Lines<BufReader<ChildStdout>>)> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["agent", "--events"]).args(arguments).current_dir(place).kill_on_drop(true);
    command.env_remove("PINCER_CONFIG").env("PINCER_STATE_DIR", place.join("state"));
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
    let lines = BufReader::new(child.stdout.take().ok_or("the agent has no output")?).lines();
    Ok((child, lines))
}
