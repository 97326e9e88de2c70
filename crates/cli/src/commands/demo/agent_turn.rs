//! A whole agent turn: the command `pincer agent` with a scripted model, killed in the middle and continued.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::Child;

use pincer_scripted::{Message, Order, Script, Server};
use serde_json::json;

use super::{Demo, heading};
use crate::cells::Outcome;
use crate::print::{count, line};

const MESSAGE: &str = "Book ada's orders in the ledger. How much are they in euros?";
const PROGRAM: &str = r#"const { entries } = await tools.ls({ path: "orders" });
const orders = await Promise.all(entries.map(async ({ name }) =>
  JSON.parse((await tools.read({ path: `orders/${name}` })).content)));
const dollars = orders.reduce((sum, { customer, amount }) => customer === "ada" ? sum + amount : sum, 0);
await tools.call("openclaw:core:exec", { command: `echo ada ${dollars} >> ledger.txt` });
const { structuredContent: { rate } } = await MCP.bank.rate({ from: "USD", to: "EUR" });
return { dollars, euros: dollars * rate };"#;
/// Is drawn when the program waits for the slow tool.
const SLOW_CALL: &str = "MCP.bank.rate";
const RESULT: &str = r#"{\"dollars\":50,\"euros\":46}"#;
const ANSWER: &str = "Ada's orders are in the ledger: 50 dollars, which are 46 euros.";

/// Tells of the turn. `place` is for its config and its state, `workspace` has the orders.
pub(super) fn tell(place: &Path, workspace: &Path) -> Outcome<()> {
    heading(5, "A whole agent turn: a message, a program, a kill in the middle, and the answer");
    let script = Script::new()
        .order(Order::Conversation)
        .reply(Message::new().call("exec", json!({ "code": PROGRAM })))
        .reply(Message::new().text(ANSWER));
    let model = Server::start(script)?;
    let demo = open(place, workspace, &model.url())?;
    line(
        "   The model is a script on this machine, so no key is needed. All else is as with a real one: the command\n   \
         `pincer agent`, its tools, its store. `bank` is an MCP server that takes a second.",
    );
    line(&format!("   $ pincer agent -m \"{MESSAGE}\""));
    line("   The model replies with a program:");
    PROGRAM.lines().for_each(|text| line(&format!("   | {text}")));
    let mut first = demo.start(&["agent", "-m", MESSAGE])?;
    if !relay(&mut first, Some(SLOW_CALL))? {
        return Err(format!("the agent did not get to `{SLOW_CALL}`: {:?}", model.complaints()).into());
    }
    first.kill()?;
    first.wait()?;
    line("   $ kill -9           # the ledger is written, the bank has not answered");
    line("   $ pincer agent --continue");
    let mut second = demo.start(&["agent", "--continue"])?;
    relay(&mut second, None)?;
    let mut answer = String::new();
    second.stdout.take().ok_or("the agent has no output")?.read_to_string(&mut answer)?;
    second.wait()?;
    if answer.trim() != ANSWER {
        return Err(format!("the agent answered {answer:?}: {:?}", model.complaints()).into());
    }
    let requests = model.requests();
    if !requests.last().is_some_and(|request| request.text.contains(RESULT)) {
        return Err("the model was not told what the program returned".into());
    }
    line(&format!("   → {}", answer.trim()));
    let ledger = fs::read_to_string(workspace.join("ledger.txt"))?;
    if ledger != "ada 50\n" {
        return Err(format!("the booking was not made once, the ledger has {ledger:?}").into());
    }
    line(&format!(
        "   The ledger has {}: {}. The rate was asked for again, since `bank` is marked as read-only; the booking\n   \
         was not made again. The model was asked {} times and knows nothing of the kill.",
        count(ledger.lines().count(), "line"),
        ledger.trim(),
        requests.len()
    ));
    Ok(())
}

fn open(place: &Path, workspace: &Path, url: &str) -> Outcome<Demo> {
    let pincer = std::env::current_exe()?;
    let bank = json!({ "command": pincer, "args": ["demo", "--bank"], "readOnly": ["rate"] });
    let config = json!({
        "workspace": workspace,
        "models": { "providers": { "scripted": { "baseUrl": format!("{url}/v1"), "apiKey": "none" } } },
        "agents": { "defaults": { "model": "scripted/scripted" } },
        "tools": { "codeMode": true, "exec": { "mode": "full" } },
        "mcp": { "servers": { "bank": bank } },
    });
    fs::create_dir_all(place)?;
    fs::write(place.join("pincer.json5"), config.to_string())?;
    Ok(Demo { place: place.to_owned(), pincer })
}

/// Shows what a process draws, up to a line with this text or to its end. Returns whether there was such a line.
fn relay(process: &mut Child, until: Option<&str>) -> Outcome<bool> {
    let drawn = process.stderr.take().ok_or("the agent has no standard error")?;
    for text in BufReader::new(drawn).lines() {
        let text = text?;
        line(&format!("   {text}"));
        if until.is_some_and(|until| text.contains(until)) {
            return Ok(true);
        }
    }
    Ok(false)
}
