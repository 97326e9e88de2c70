//! A relay in front of the model's server. It notes the moments at which bytes pass, so that the time of the model and that of the
//! agent can be told apart.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::cells::Outcome;

/// The sender of bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Agent,
    Model,
}

/// Bytes that passed: those of the agent when they had come, those of the model when they had been passed on.
#[derive(Clone, Copy)]
pub(super) struct Passed {
    pub at: Instant,
    pub by: Side,
}

/// A relay on loopback. Its threads end with the process.
pub(super) struct Tap {
    address: SocketAddr,
    passed: Arc<Mutex<Vec<Passed>>>,
}

impl Tap {
    /// Starts a relay to the server at this address.
    pub(super) fn start(model_url: &str) -> Outcome<Self> {
        let model: SocketAddr = model_url.trim_start_matches("http://").parse()?;
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let (address, passed) = (listener.local_addr()?, Arc::<Mutex<Vec<Passed>>>::default());
        let noted = Arc::clone(&passed);
        thread::spawn(move || {
            for agent in listener.incoming().flatten() {
                // A connection that breaks here is an error that the agent tells.
                let _ = relay(agent, model, &noted);
            }
        });
        Ok(Self { address, passed })
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns what has passed since this was last asked.
    pub(super) fn take(&self) -> Vec<Passed> {
        std::mem::take(&mut self.passed.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Returns the time from this moment to the first bytes of the agent.
pub(super) fn until_asked(passed: &[Passed], began: Instant) -> Option<Duration> {
    let first = passed.iter().find(|passed| passed.by == Side::Agent && passed.at >= began)?;
    Some(first.at - began)
}

/// Returns the time that the agent waited for the model: from the last bytes of a request to the last ones of its reply.
pub(super) fn of_model(passed: &[Passed]) -> Duration {
    passed.windows(2).filter(|pair| pair[1].by == Side::Model).map(|pair| pair[1].at - pair[0].at).sum()
}

fn relay(agent: TcpStream, model: SocketAddr, passed: &Arc<Mutex<Vec<Passed>>>) -> std::io::Result<()> {
    let model = TcpStream::connect(model)?;
    agent.set_nodelay(true)?;
    model.set_nodelay(true)?;
    let (from_agent, to_agent) = (agent.try_clone()?, agent);
    let (from_model, to_model) = (model.try_clone()?, model);
    for (from, to, by) in [(from_agent, to_model, Side::Agent), (from_model, to_agent, Side::Model)] {
        let passed = Arc::clone(passed);
        thread::spawn(move || pump(from, to, by, &passed));
    }
    Ok(())
}

fn pump(mut from: TcpStream, mut to: TcpStream, by: Side, passed: &Mutex<Vec<Passed>>) {
    let mut buffer = vec![0; 64 << 10];
    let note = || passed.lock().unwrap_or_else(PoisonError::into_inner).push(Passed { at: Instant::now(), by });
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        // Before they are passed on for the agent, after that for the model: a relay's own time is the model's.
        if by == Side::Agent {
            note();
        }
        if to.write_all(&buffer[..count]).is_err() {
            break;
        }
        if by == Side::Model {
            note();
        }
    }
    let _ = to.shutdown(std::net::Shutdown::Write);
}
