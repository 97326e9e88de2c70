//! The line that a person types in a conversation, with the lines typed before at the arrow keys.

use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use rustyline::DefaultEditor;
use rustyline::error::ReadlineError;

/// The line of a conversation.
#[derive(Clone)]
pub(crate) struct Typing(Arc<Mutex<Line>>);

struct Line {
    editor: DefaultEditor,
    history: Option<PathBuf>,
}

impl Typing {
    /// Returns a line with the history in this file. `None` if the terminal cannot have one.
    pub(crate) fn new(history: Option<PathBuf>) -> Option<Self> {
        let mut editor = DefaultEditor::new().ok()?;
        if let Some(file) = &history {
            // Only for the user: what is typed to an agent is nobody else's business.
            let made = std::fs::OpenOptions::new().create(true).append(true).mode(0o600).open(file);
            if made.is_ok() {
                let _ = editor.load_history(file);
            }
        }
        Some(Self(Arc::new(Mutex::new(Line { editor, history }))))
    }

    /// Returns the next line. `None` when there are no more. Ctrl-C clears the line.
    pub(crate) async fn line(&self, prompt: &'static str) -> Option<String> {
        let this = self.clone();
        let reading = tokio::task::spawn_blocking(move || this.read(prompt));
        reading.await.ok().flatten()
    }

    fn read(&self, prompt: &str) -> Option<String> {
        let mut line = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match line.editor.readline(prompt) {
                Ok(text) => {
                    // Answers to questions are no messages.
                    if !prompt.is_empty() && !text.trim().is_empty() && line.editor.add_history_entry(&text).is_ok() {
                        line.keep();
                    }
                    return Some(text);
                }
                Err(ReadlineError::Interrupted) if !prompt.is_empty() => {}
                Err(_) => return None,
            }
        }
    }
}

impl Line {
    fn keep(&mut self) {
        if let Some(file) = self.history.clone() {
            let _ = self.editor.append_history(&file);
        }
    }
}
