//! Commands in messages: a line that begins with a slash.

use pincer_model::Level;
use pincer_runtime::ModelSetup;

use crate::error::AgentError;
use crate::request::{CommandRights, QueueMode, Reasoning, Request, Verbose};
use crate::settings::{Drop, QueueSettings, SessionSettings};

/// A command at the beginning of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    /// Stop what goes on.
    Stop,
    /// Begin a new conversation.
    New,
    /// The same, in another word.
    Reset,
    /// Tell how things stand.
    Status,
    /// Join the run that goes on.
    Steer,
    /// Compact the conversation.
    Compact,
    /// Ask another model from now on; tell which one if none is named.
    Model(Option<String>),
    /// Think more or less from now on.
    Think(Option<Level>),
    /// Tell more or less of tools from now on.
    Verbose(Option<Verbose>),
    /// Tell more or less of the model's thoughts from now on.
    Reasoning(Option<Reasoning>),
    /// Tell how answers were made from now on.
    Trace(Option<bool>),
    /// Queue messages in another way from now on.
    Queue(Option<QueueSettings>),
}

impl Command {
    /// Returns its name, as hooks know it.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::New => "new",
            Self::Reset => "reset",
            Self::Status => "status",
            Self::Steer => "steer",
            Self::Compact => "compact",
            Self::Model(_) => "model",
            Self::Think(_) => "think",
            Self::Verbose(_) => "verbose",
            Self::Reasoning(_) => "reasoning",
            Self::Trace(_) => "trace",
            Self::Queue(_) => "queue",
        }
    }
}

/// A message, with its command apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Parsed {
    pub command: Option<Command>,
    /// The rest of the message.
    pub rest: String,
}

impl Parsed {
    /// Fails if the message may not give its command.
    pub(crate) fn permitted(&self, request: &Request) -> Result<(), AgentError> {
        match &self.command {
            None | Some(Command::Stop | Command::Status | Command::Steer) => Ok(()),
            Some(_) if request.commands == CommandRights::All => Ok(()),
            Some(command) => {
                let channel = request.channel.as_deref().unwrap_or("NAME");
                Err(AgentError::Command(format!(
                    "/{} would change this conversation for all who take part in it, and you may not do that. The operator can allow \
                     it with `channels.{channel}.commandsFrom`.",
                    command.name()
                )))
            }
        }
    }
}

/// Reads a message. Text that begins with a slash and is no command of ours is text.
pub(crate) fn parse(message: &str) -> Result<Parsed, String> {
    let text = message.trim_start();
    let plain = || Parsed { command: None, rest: message.to_owned() };
    let Some(after) = text.strip_prefix('/') else { return Ok(plain()) };
    let (word, rest) = after.split_once(char::is_whitespace).unwrap_or((after, ""));
    let rest = rest.trim_start();
    let with = |command, rest: &str| Ok(Parsed { command: Some(command), rest: rest.to_owned() });
    // A command with a value takes the next word, and what follows is the message.
    let (value, beyond) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    let (value, beyond) = (value.trim(), beyond.trim_start());
    match word.to_ascii_lowercase().as_str() {
        "stop" | "abort" => with(Command::Stop, rest),
        "new" => with(Command::New, rest),
        "reset" => with(Command::Reset, rest),
        "status" => with(Command::Status, rest),
        "compact" => with(Command::Compact, rest),
        "steer" | "tell" if !rest.is_empty() => with(Command::Steer, rest),
        "steer" | "tell" => Err("/steer needs a text: /steer look at the tests first".into()),
        "model" => match value {
            "" => with(Command::Model(None), ""),
            value => with(Command::Model(Some(value.to_owned())), beyond),
        },
        "think" | "thinking" | "t" => match (value, Level::ALL.into_iter().find(|level| level.name() == value)) {
            ("", _) => with(Command::Think(None), ""),
            (_, Some(level)) => with(Command::Think(Some(level)), beyond),
            (value, None) => Err(format!("/think {value}: the levels are {}", names(Level::ALL.map(Level::name)))),
        },
        "verbose" | "v" => match value {
            "" => with(Command::Verbose(None), ""),
            "off" => with(Command::Verbose(Some(Verbose::Off)), beyond),
            "on" => with(Command::Verbose(Some(Verbose::On)), beyond),
            "full" => with(Command::Verbose(Some(Verbose::Full)), beyond),
            value => Err(format!("/verbose {value}: it is off, on or full")),
        },
        "reasoning" => match value {
            "" => with(Command::Reasoning(None), ""),
            "off" => with(Command::Reasoning(Some(Reasoning::Off)), beyond),
            "on" => with(Command::Reasoning(Some(Reasoning::On)), beyond),
            "stream" => with(Command::Reasoning(Some(Reasoning::Stream)), beyond),
            value => Err(format!("/reasoning {value}: it is off, on or stream")),
        },
        "trace" => match value {
            "" => with(Command::Trace(None), ""),
            "off" => with(Command::Trace(Some(false)), beyond),
            "on" => with(Command::Trace(Some(true)), beyond),
            value => Err(format!("/trace {value}: it is off or on")),
        },
        "queue" => match rest {
            "" => with(Command::Queue(None), ""),
            rest => with(Command::Queue(Some(queue(rest)?)), ""),
        },
        // One word after a slash is a command that was meant, and not a path.
        word if rest.is_empty() && !word.is_empty() && word.chars().all(|letter| letter.is_ascii_lowercase()) => {
            Err(format!("there is no command /{word}; the commands are {COMMANDS}"))
        }
        _ => Ok(plain()),
    }
}

const COMMANDS: &str = "/status, /stop, /new, /reset, /compact, /model, /think, /verbose, /reasoning, /trace, /queue and /steer. Put the text into quotes to send it";

fn names<const N: usize>(names: [&str; N]) -> String {
    names.join(", ")
}

/// Reads what follows `/queue`: a mode and options.
fn queue(text: &str) -> Result<QueueSettings, String> {
    let mut settings = QueueSettings::default();
    for word in text.split_whitespace() {
        let wrong = || {
            format!(
                "/queue {word}: it takes steer, followup, collect or interrupt, debounce:0.5s, cap:25, drop:old|new|summarize, or default"
            )
        };
        match word.split_once(':') {
            None if matches!(word, "default" | "reset") => return Ok(QueueSettings::default()),
            None => settings.mode = Some(QueueMode::named(word).ok_or_else(wrong)?),
            Some(("debounce", value)) => settings.debounce_ms = Some(millis(value).ok_or_else(wrong)?),
            Some(("cap", value)) => {
                settings.cap = Some(value.parse().ok().filter(|cap| *cap >= 1).ok_or_else(wrong)?);
            }
            Some(("drop", "old")) => settings.drop = Some(Drop::Old),
            Some(("drop", "new")) => settings.drop = Some(Drop::New),
            Some(("drop", "summarize")) => settings.drop = Some(Drop::Summarize),
            Some(_) => return Err(wrong()),
        }
    }
    Ok(settings)
}

/// Reads a time such as `500ms`, `0.5s` or `500`.
fn millis(text: &str) -> Option<u64> {
    let (number, factor) = match (text.strip_suffix("ms"), text.strip_suffix('s')) {
        (Some(number), _) => (number, 1.0),
        (None, Some(number)) => (number, 1000.0),
        (None, None) => (text, 1.0),
    };
    let number: f64 = number.parse().ok().filter(|number| (0.0..=600_000.0).contains(number))?;
    Some((number * factor).min(600_000.0) as u64)
}

/// Changes the settings of a session. Returns what is told.
pub(crate) fn change(command: &Command, settings: &mut SessionSettings, models: &ModelSetup) -> Result<String, String> {
    Ok(match command {
        Command::Model(None) => match &settings.model {
            Some(model) => format!("This session asks {model}."),
            None => "This session asks the model of its agent.".into(),
        },
        Command::Model(Some(name)) if name == "default" => {
            settings.model = None;
            "From now on the model of the agent is asked.".into()
        }
        Command::Model(Some(name)) => {
            models.target(name).map_err(|error| error.to_string())?;
            settings.model = Some(name.clone());
            format!("From now on {name} is asked.")
        }
        Command::Think(None) => match settings.thinking {
            Some(level) => format!("This session thinks {}.", level.name()),
            None => "This session thinks as its agent does.".into(),
        },
        Command::Think(Some(level)) => {
            settings.thinking = Some(*level);
            format!("Thinking is {} from now on.", level.name())
        }
        Command::Verbose(None) => {
            format!("Verbose is {}.", format!("{:?}", settings.verbose.unwrap_or_default()).to_lowercase())
        }
        Command::Verbose(Some(level)) => {
            settings.verbose = Some(*level);
            format!("Verbose is {} from now on.", format!("{level:?}").to_lowercase())
        }
        Command::Reasoning(None) => match settings.reasoning {
            Some(reasoning) => format!("Reasoning is {}.", format!("{reasoning:?}").to_lowercase()),
            None => "The model's thoughts are told as its agent says.".into(),
        },
        Command::Reasoning(Some(reasoning)) => {
            settings.reasoning = Some(*reasoning);
            format!("Reasoning is {} from now on.", format!("{reasoning:?}").to_lowercase())
        }
        Command::Trace(None) => {
            format!("Trace is {}.", if settings.trace.unwrap_or_default() { "on" } else { "off" })
        }
        Command::Trace(Some(on)) => {
            settings.trace = Some(*on);
            format!("Trace is {} from now on.", if *on { "on" } else { "off" })
        }
        Command::Queue(None) => match settings.queue.and_then(|queue| queue.mode) {
            Some(mode) => format!("Messages that come while the agent is busy: {}.", mode.as_str()),
            None => "Messages that come while the agent is busy are queued as the config says.".into(),
        },
        Command::Queue(Some(queue)) if *queue == QueueSettings::default() => {
            settings.queue = None;
            "Messages are queued as the config says.".into()
        }
        Command::Queue(Some(queue)) => {
            let before = settings.queue.unwrap_or_default();
            let merged = QueueSettings {
                mode: queue.mode.or(before.mode),
                debounce_ms: queue.debounce_ms.or(before.debounce_ms),
                cap: queue.cap.or(before.cap),
                drop: queue.drop.or(before.drop),
            };
            settings.queue = Some(merged);
            match merged.mode {
                Some(mode) => format!("Messages that come while the agent is busy: {}.", mode.as_str()),
                None => "The queue of this session is set.".into(),
            }
        }
        Command::Stop | Command::New | Command::Reset | Command::Status | Command::Steer | Command::Compact => {
            String::new()
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_read_and_other_text_is_text() {
        let check = |text: &str, command: Option<Command>, rest: &str| {
            assert_eq!(parse(text), Ok(Parsed { command, rest: rest.to_owned() }), "{text}");
        };
        check("hello /stop", None, "hello /stop");
        check("/usr/bin/env", None, "/usr/bin/env");
        check(" /STOP", Some(Command::Stop), "");
        check("/new write a poem", Some(Command::New), "write a poem");
        check("/think high why?", Some(Command::Think(Some(Level::High))), "why?");
        check("/think", Some(Command::Think(None)), "");
        check("/model a/b", Some(Command::Model(Some("a/b".into()))), "");
        check("/compact", Some(Command::Compact), "");
        check("/compact keep the names", Some(Command::Compact), "keep the names");
        check("/steer no, the other one", Some(Command::Steer), "no, the other one");
        let queue = QueueSettings {
            mode: Some(QueueMode::Collect),
            debounce_ms: Some(500),
            cap: Some(25),
            drop: Some(Drop::Summarize),
        };
        check("/queue collect debounce:0.5s cap:25 drop:summarize", Some(Command::Queue(Some(queue))), "");
        check("/queue default", Some(Command::Queue(Some(QueueSettings::default()))), "");
        check("/tmp is full", None, "/tmp is full");
        for wrong in ["/help", "/think loud", "/queue sideways", "/queue cap:0", "/verbose maybe", "/steer"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
