//! `pincer config`: what the config says, what may stand in it, what is wrong with it.

use pincer_config::{ConfigError, Loaded, Parsed, Problems};
use pincer_runtime::redactor;
use serde_json::{Value, json};

use crate::print::{chain, line, note};
use crate::usage::{ConfigArguments, ConfigCommand, LocationArguments};
use crate::{DONE, WRONG_USAGE, settings};

pub(crate) fn run(locations: &LocationArguments, arguments: &ConfigArguments) -> u8 {
    match arguments.command {
        ConfigCommand::Schema => {
            line(&pretty(&pincer_config::schema()));
            DONE
        }
        ConfigCommand::Show => match settings::told(settings::read_only(locations)) {
            Ok(loaded) => {
                let shown = redactor(&loaded.parsed.config).redact(&loaded.parsed.shown());
                line(&if arguments.json { shown.to_string() } else { pretty(&shown) });
                DONE
            }
            Err(code) => code,
        },
        ConfigCommand::Validate => validate(settings::read_only(locations), arguments.json),
    }
}

fn validate(read: Result<Loaded, ConfigError>, json: bool) -> u8 {
    // Pincer runs without these servers; the check is there to tell what is missing.
    let read = read.and_then(|loaded| match (loaded.parsed.unset(), &loaded.file) {
        (unset, Some(file)) if !unset.is_empty() => {
            Err(ConfigError::Wrong { file: file.clone(), problems: Problems(unset) })
        }
        _ => Ok(loaded),
    });
    let (code, document) = match &read {
        Ok(Loaded { parsed, file, notes }) => {
            (DONE, json!({ "valid": true, "file": file, "notes": notes, "warnings": warnings(parsed) }))
        }
        Err(ConfigError::Wrong { file, problems }) => {
            (WRONG_USAGE, json!({ "valid": false, "code": "invalid_config", "file": file, "problems": problems.0 }))
        }
        Err(error @ (ConfigError::Read { file, .. } | ConfigError::Distrusted { file, .. })) => {
            let problems = json!([{ "path": "", "message": chain(error) }]);
            (WRONG_USAGE, json!({ "valid": false, "code": "invalid_config", "file": file, "problems": problems }))
        }
    };
    if json {
        line(&document.to_string());
        return code;
    }
    match read {
        Ok(loaded) => {
            settings::warn(&loaded);
            match loaded.file {
                Some(file) => line(&format!("{} is valid", file.display())),
                None => line("there is no config: everything has its default"),
            }
        }
        Err(error) => note(&format!("error: {}", chain(&error))),
    }
    code
}

fn warnings(parsed: &Parsed) -> Vec<Value> {
    let shown = |warning: &pincer_config::Warning| {
        let mut document = json!(warning);
        document["message"] = warning.to_string().into();
        document
    };
    parsed.warnings.iter().map(shown).collect()
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_else(|_| value.to_string())
}
