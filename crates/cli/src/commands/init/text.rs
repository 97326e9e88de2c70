//! The text of the config that `pincer init` writes.

use pincer_model::known_provider;
use serde_json::json;

use super::detect::Local;

/// Returns the config, with a comment on each line that decides something.
pub(super) fn config(model: Option<&str>, local: &[Local]) -> String {
    let mut lines = vec![
        "// The config of Pincer, written by `pincer init`. `pincer config schema` describes every key.".to_owned(),
        "// After a change, `pincer config validate` checks this file, and `pincer doctor` everything around it."
            .into(),
        "{".into(),
    ];
    if !local.is_empty() {
        lines.extend(["  models: {".into(), "    providers: {".into()]);
        local.iter().for_each(|server| lines.extend(provider(server)));
        lines.extend(["    },".into(), "  },".into()]);
    }
    lines.extend(["  agents: {".into(), "    defaults: {".into()]);
    lines.extend(chosen(model));
    lines.extend(
        [
            "    },",
            "  },",
            "  tools: {",
            "    // A model sees two tools, exec and wait, and writes programs that call all the others.",
            "    codeMode: true,",
            "  },",
            "}",
            "",
        ]
        .map(str::to_owned),
    );
    lines.join("\n")
}

fn provider(server: &Local) -> Vec<String> {
    vec![
        "      // A model server on this machine. It needs no key.".into(),
        format!("      {}: {{", json!(server.id)),
        "        // Its address.".into(),
        format!("        baseUrl: {},", json!(server.url)),
        "        // The format that it speaks.".into(),
        "        api: \"openai-completions\",".into(),
        "      },".into(),
    ]
}

fn chosen(model: Option<&str>) -> Vec<String> {
    let Some(model) = model else {
        return vec![
            "      // The model that agents use, as provider/model. None was found: put one here and remove the slashes, or"
                .into(),
            "      // set ANTHROPIC_API_KEY (or the key of another provider) or start Ollama, and run `pincer init --force`."
                .into(),
            "      // model: \"anthropic/NAME\",".into(),
        ];
    };
    let mut lines = vec![
        "      // The model that agents use, as provider/model. `pincer models list` shows the others.".to_owned(),
    ];
    let preset = model.split_once('/').and_then(|(id, _)| known_provider(id));
    if let Some(preset) = preset.filter(|preset| !preset.variables.is_empty()) {
        let names = preset.variables.join(" or ");
        lines.push(format!("      // The key is read from {names} in the environment whenever it is needed."));
    }
    lines.push(format!("      model: {},", json!(model)));
    lines
}
