//! A message per line, more or less.
#![allow(clippy::print_stderr, reason = "servers write their logs there")]

use std::io::{self, BufRead as _, Write};
use std::path::Path;

use serde_json::Value;

use super::{Act, BETWEEN_BYTES, BETWEEN_LOOKS, CODE, LAST_WORDS, Liar, Mode, NUMBER};

/// Serves standard input and output until the input ends.
///
/// # Errors
/// When the client is gone.
pub fn serve_stdio(mode: Mode) -> io::Result<()> {
    if mode == Mode::CrashStart {
        die();
    }
    let mut liar = Liar::new(mode);
    serve(|message| liar.on(message))
}

/// Does what `answer` decides about each message until the input ends.
pub(super) fn serve(mut answer: impl FnMut(&Value) -> Vec<Act>) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    for line in io::stdin().lock().lines() {
        let Ok(message) = serde_json::from_str(&line?) else { continue };
        for act in answer(&message) {
            perform(&mut stdout, act)?;
        }
    }
    Ok(())
}

fn perform(stdout: &mut impl Write, act: Act) -> io::Result<()> {
    match act {
        Act::Say(message) => writeln!(stdout, "{message}")?,
        Act::Bytes(bytes) => stdout.write_all(&bytes)?,
        Act::Drip(message) => drip(stdout, format!("{message}\n").as_bytes())?,
        Act::Many(text, count) => {
            let mut to = io::BufWriter::new(&mut *stdout);
            (0..count).try_for_each(|number| writeln!(to, "{}", text.replace(NUMBER, &number.to_string())))?;
            to.flush()?;
        }
        Act::Wait(time) => std::thread::sleep(time),
        Act::Until(file) => until(&file),
        Act::Die => {
            stdout.flush()?;
            die()
        }
    }
    stdout.flush()
}

pub(super) fn drip(to: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    for byte in bytes {
        to.write_all(&[*byte])?;
        to.flush()?;
        std::thread::sleep(BETWEEN_BYTES);
    }
    Ok(())
}

pub(super) fn until(file: &Path) {
    while !file.exists() {
        std::thread::sleep(BETWEEN_LOOKS);
    }
}

pub(super) fn die() -> ! {
    eprintln!("{LAST_WORDS}");
    std::process::exit(CODE)
}
