//! A plugin for Pincer: one JSON-RPC message per line on stdin and stdout. Logs go to stderr.
#![allow(clippy::print_stderr, reason = "what a plugin writes there is in its log")]

use std::collections::HashSet;
use std::io::{BufRead, Write, stdin, stdout};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

/// Calls that nobody waits for any more.
type Cancelled = Arc<Mutex<HashSet<u64>>>;

fn main() {
    let cancelled = Cancelled::default();
    let mut night = (22, 6);
    for line in stdin().lock().lines().map_while(Result::ok) {
        let Ok(message) = serde_json::from_str::<Value>(&line) else { continue };
        let (id, params) = (message["id"].as_u64(), message["params"].clone());
        match (message["method"].as_str(), id) {
            (Some("initialize"), Some(id)) => {
                if let Some(hours) = params["config"]["night"].as_array() {
                    night = (hours[0].as_u64().unwrap_or(22), hours[1].as_u64().unwrap_or(6));
                }
                answer(id, json!({ "protocolVersion": 1 }));
            }
            (Some("tool/call"), Some(id)) => {
                let cancelled = Arc::clone(&cancelled);
                // Each call on a thread of its own, so that the next message is heard.
                thread::spawn(move || count_down(id, &params["input"], &cancelled));
            }
            (Some("hook/before_tool_call"), Some(id)) => answer(id, ask_at_night(night)),
            (Some("cancel"), None) => {
                lock(&cancelled).extend(params["id"].as_u64());
            }
            (Some("shutdown"), Some(id)) => {
                answer(id, Value::Null);
                return;
            }
            (_, Some(id)) => send(&json!({ "id": id, "error": { "code": -32601, "message": "unknown method" } })),
            (_, None) => {}
        }
    }
}

fn lock(cancelled: &Cancelled) -> MutexGuard<'_, HashSet<u64>> {
    cancelled.lock().unwrap_or_else(PoisonError::into_inner)
}

fn count_down(id: u64, input: &Value, cancelled: &Cancelled) {
    let ticks = input["ticks"].as_u64().unwrap_or(0);
    let tick = Duration::from_millis(input["tickMs"].as_u64().unwrap_or(1000));
    for left in (0..ticks).rev() {
        thread::sleep(tick);
        if lock(cancelled).remove(&id) {
            eprintln!("call {id} was cancelled");
            return send(
                &json!({ "id": id, "error": { "code": -32800, "message": "cancelled", "data": { "effect": "none" } } }),
            );
        }
        send(&json!({ "method": "update", "params": { "id": id, "update": { "left": left } } }));
    }
    answer(id, json!({ "value": { "ticks": ticks } }));
}

fn ask_at_night((from, to): (u64, u64)) -> Value {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    let hour = seconds / 3600 % 24;
    let night = if from <= to { (from..to).contains(&hour) } else { hour >= from || hour < to };
    if night { json!({ "requireApproval": { "title": "Run a command at night?" } }) } else { Value::Null }
}

fn answer(id: u64, result: Value) {
    send(&json!({ "id": id, "result": result }));
}

fn send(message: &Value) {
    let mut message = message.clone();
    message["jsonrpc"] = "2.0".into();
    let mut out = stdout().lock();
    let _ = writeln!(out, "{message}").and_then(|()| out.flush());
}
