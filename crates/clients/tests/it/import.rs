//! What stands in the configs of clients, as servers of ours.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use crate::home::{Home, read, remarks, shown};
use pincer_clients::{Client, Importer, Reason, Secrets};
use serde_json::json;

#[test]
fn claude_desktop_is_read() {
    let reading = read(
        Client::ClaudeDesktop,
        0,
        r#"{
          "globalShortcut": "Ctrl+Space",
          "mcpServers": {
            "filesystem": { "command": "npx", "args": ["-y", "@modelcontextprotocol/server-filesystem", "/home/me"] },
            "My GitHub!": { "command": "docker", "args": ["run", "-e", "GITHUB_TOKEN", "image"], "env": { "GITHUB_TOKEN": "ghp_x", "N": 5, "B": true, "O": {} } },
            "shell": { "command": "sh", "args": ["-c", "exec ${SERVER}"] },
            "pincer": { "command": "/opt/bin/pincer", "args": ["mcp", "serve"] }
          }
        }"#,
    );
    assert_eq!(
        shown(&reading),
        json!({
            "filesystem": { "command": "npx", "args": ["-y", "@modelcontextprotocol/server-filesystem", "/home/me"] },
            "My-GitHub": { "command": "docker", "args": ["run", "-e", "GITHUB_TOKEN", "image"], "env": { "GITHUB_TOKEN": "ghp_x", "N": "5", "B": "true" } },
            "shell": { "command": "sh", "args": ["-c", "exec $${SERVER}"] },
        })
    );
    assert_eq!(
        remarks(&reading),
        [
            "`env.O` is left out: it is not a string",
            "`${SERVER}` is passed on as it stands: Claude Desktop fills in no variables"
        ]
    );
    assert_eq!(reading.servers[1].name_there, "My GitHub!");
    assert_eq!(reading.left_out[0].reason, Reason::Ourselves);
}

#[test]
fn claude_code_is_read() {
    let project = r#"{
      "mcpServers": {
        "api": { "type": "http", "url": "${BASE:-https://api.example.com}/mcp", "headers": { "Authorization": "Bearer ${API_TOKEN}" } },
        "old": { "type": "sse", "url": "https://old.example.com/sse", "headersHelper": "/bin/x", "timeout": 5 },
        "local": { "command": "./run.sh", "args": ["--port", 80], "env": { "S": "${SET:-x}" } },
        "sub": { "command": "run", "cwd": "server" },
        "oauth": { "type": "streamable-http", "url": "https://o", "oauth": { "clientId": "id", "callbackPort": 8080, "scopes": "a b", "authServerMetadataUrl": "https://x" } },
        "socket": { "type": "ws", "url": "wss://x" }
      }
    }"#;
    let home = Home::new(&[("SET", "now")]);
    let file = home.file(Client::ClaudeCode, 2);
    let home = home.with(&file, project);
    let reading = Importer::new(&home.around, Secrets::Keep).read(&file).unwrap();
    let app = home.around.directory.to_str().unwrap();
    assert_eq!(
        shown(&reading),
        json!({
            "api": { "type": "http", "url": "https://api.example.com/mcp", "headers": { "Authorization": "Bearer ${API_TOKEN}" } },
            "old": { "type": "sse", "url": "https://old.example.com/sse" },
            "local": { "command": "./run.sh", "args": ["--port", "80"], "env": { "S": "${SET}" }, "cwd": app },
            "sub": { "command": "run", "cwd": format!("{app}/server") },
            "oauth": { "type": "streamable-http", "url": "https://o", "auth": { "clientId": "id", "redirectPort": 8080, "scopes": ["a", "b"] } },
        })
    );
    assert_eq!(
        remarks(&reading),
        [
            "`BASE` is not set, so its default is written instead of it",
            "`headersHelper` is left out: Pincer runs no program for headers",
            "`timeout` is left out: clients count it differently; ours is `timeoutMs`",
            "the default of `SET` is left out: the variable is set, and must be from now on",
            "`oauth.authServerMetadataUrl` is left out: it is not understood",
        ]
    );
    let needed: Vec<_> = reading.variables.iter().map(|needed| (needed.name.as_str(), needed.is_set)).collect();
    assert_eq!(needed, [("API_TOKEN", false), ("SET", true)]);
    assert_eq!(reading.left_out[0].reason.to_string(), "its type `ws` is not known to Pincer");
}

#[test]
fn claude_codes_file_of_the_user_has_servers_for_all_and_for_one_directory() {
    let home = Home::new(&[]);
    let (user, local) = (home.file(Client::ClaudeCode, 0), home.file(Client::ClaudeCode, 1));
    let here = home.around.directory.to_str().unwrap();
    let text = json!({
        "numStartups": 12,
        "projects": {
            here: { "history": [], "mcpServers": { "mine": { "type": "stdio", "command": "m", "args": [], "env": {} } } },
            "/elsewhere": { "mcpServers": { "other": { "command": "o" } } },
        },
        "mcpServers": { "all": { "command": "a" }, "here": { "command": "a", "args": ["."] } },
    });
    let home = home.with(&user, &text.to_string());
    let mut importer = Importer::new(&home.around, Secrets::Keep);
    let app = home.around.directory.to_str().unwrap();
    assert_eq!(
        shown(&importer.read(&user).unwrap()),
        json!({ "all": { "command": "a" }, "here": { "command": "a", "args": ["."], "cwd": app } })
    );
    assert_eq!(shown(&importer.read(&local).unwrap()), json!({ "mine": { "command": "m", "cwd": app } }));
}

#[test]
fn cursor_is_read() {
    let reading = read(
        Client::Cursor,
        0,
        r#"{ "mcpServers": {
          "a": { "command": "${userHome}/bin/a", "envFile": "${workspaceFolder}/.env", "env": { "K": "${env:KEY}" } },
          "b": { "url": "https://b.example.com/mcp", "auth": { "CLIENT_ID": "i", "CLIENT_SECRET": "${env:CS}", "scopes": ["r"] } },
          "c": { "type": "streamableHttp", "url": "http://localhost:1/mcp", "disabled": true, "autoApprove": ["x"] },
        } }"#,
    );
    let servers = shown(&reading);
    assert!(servers["a"]["command"].as_str().unwrap().ends_with("home/bin/a"), "{servers}");
    assert_eq!(servers["a"]["env"], json!({ "K": "${KEY}" }));
    assert_eq!(servers["b"]["auth"], json!({ "clientId": "i", "clientSecret": "${CS}", "scopes": ["r"] }));
    assert_eq!(servers["c"], json!({ "type": "streamable-http", "url": "http://localhost:1/mcp", "enabled": false }));
    assert_eq!(
        remarks(&reading),
        [
            "`${userHome}` is written out: our config has no such variable",
            "`envFile` is left out: put its variables into `env`, or into the environment",
            "`autoApprove` is left out: say under `approvals` which calls are allowed",
        ]
    );
}

#[test]
fn vs_code_is_read_with_its_comments_and_inputs() {
    let reading = read(
        Client::VsCode,
        1,
        "\u{feff}// mine\r\n{\r\n  \"inputs\": [\r\n    { \"type\": \"promptString\", \"id\": \"perplexity-key\", \"description\": \"Perplexity API Key\", \"password\": true },\r\n  ],\r\n  \"servers\": {\r\n    /* search */\r\n    \"Perplexity\": { \"type\": \"stdio\", \"command\": \"npx\", \"args\": [\"-y\", \"p\"], \"env\": { \"PERPLEXITY_API_KEY\": \"${input:perplexity-key}\", \"GONE\": null }, \"dev\": { \"watch\": \"**\" } },\r\n    \"remote\": { \"type\": \"http\", \"url\": \"https://x/mcp\", \"headers\": { \"X\": \"${input:unknown id}\" } }\r\n  }\r\n}\r\n",
    );
    let mut servers = shown(&reading);
    // As the client starts it.
    let cwd = servers["Perplexity"].as_object_mut().unwrap().remove("cwd").unwrap();
    assert!(cwd.as_str().unwrap().ends_with("/app"), "{cwd}");
    assert_eq!(
        servers,
        json!({
            "Perplexity": { "command": "npx", "args": ["-y", "p"], "env": { "PERPLEXITY_API_KEY": "${PERPLEXITY_KEY}" } },
            "remote": { "type": "http", "url": "https://x/mcp", "headers": { "X": "${UNKNOWN_ID}" } },
        })
    );
    assert_eq!(
        remarks(&reading),
        [
            "the client asks for `perplexity-key` (Perplexity API Key); Pincer takes it from the variable PERPLEXITY_KEY",
            "`env.GONE` is left out: it is not a string",
            "`dev` is left out: it is not understood",
            "the client asks for `unknown id`; Pincer takes it from the variable UNKNOWN_ID",
        ]
    );
}

#[test]
fn codex_is_read() {
    let reading = read(
        Client::Codex,
        0,
        r#"
        model = "o" # the model
        [mcp_servers.docs]
        command = "npx"
        args = ["-y", "docs"]
        env = { KEY = "v" }
        env_vars = ["FORWARDED", { name = "OTHER", source = "local" }, 5]
        cwd = "/srv"
        startup_timeout_sec = 20.5
        tool_timeout_sec = 1e9
        enabled_tools = ["search"]
        disabled_tools = ["delete"]
        required = true
        [mcp_servers.docs.tools.search]
        approval_mode = "approve"
        [mcp_servers."figma remote"]
        url = "https://mcp.figma.com/mcp"
        bearer_token_env_var = "FIGMA_TOKEN"
        http_headers = { "X-Region" = "eu" }
        env_http_headers = { "X-Key" = "FIGMA_KEY", "X-Bad" = "not a name" }
        enabled = false
        "#,
    );
    assert_eq!(
        shown(&reading),
        json!({
            "docs": {
                "command": "npx", "args": ["-y", "docs"], "cwd": "/srv",
                "env": { "KEY": "v", "FORWARDED": "${FORWARDED}", "OTHER": "${OTHER}" },
                "connectTimeoutMs": 20_500, "timeoutMs": 86_400_000_u64,
                "tools": { "allow": ["search"], "deny": ["delete"] },
            },
            "figma-remote": {
                "url": "https://mcp.figma.com/mcp", "enabled": false,
                "auth": { "token": "${FIGMA_TOKEN}" },
                "headers": { "X-Region": "eu", "X-Key": "${FIGMA_KEY}" },
            },
        })
    );
    assert_eq!(
        remarks(&reading),
        [
            "an item of `env_vars` is left out: it does not name a variable",
            "`tool_timeout_sec` is brought into the range that is allowed: 86400000 ms",
            "`required` is left out: it is not understood",
            "`tools` is left out: it is not understood",
            "`env_http_headers.X-Bad` is left out: it does not name a variable",
        ]
    );
}

#[test]
fn servers_that_cannot_be_ours_are_left_out_with_a_reason() {
    for (server, reason) in [
        ("5", "it is not an object"),
        ("{}", "it has neither a `command` nor a `url`"),
        (r#"{ "command": ["npx"] }"#, "its `command` is not a string"),
        (r#"{ "command": " " }"#, "its `command` is empty"),
        (r#"{ "command": "x", "args": "y" }"#, "its `args` is not a list"),
        (r#"{ "command": "x", "args": ["y", {}] }"#, "its `args` is not a list of strings"),
        (r#"{ "command": "x", "env": [] }"#, "its `env` is not an object"),
        (r#"{ "url": "ftp://x" }"#, "its `url` does not begin with http:// or https://"),
        (r#"{ "url": 5 }"#, "its `url` is not a string"),
        (r#"{ "url": "http://x", "type": "carrier pigeon" }"#, "its type `carrier pigeon` is not known to Pincer"),
        (r#"{ "url": "http://x", "bearer_token_env_var": "a b" }"#, "`bearer_token_env_var` does not name a variable"),
        (
            r#"{ "command": "C:\\Tools\\Pincer.EXE", "args": ["--config", "x", "mcp", "serve"] }"#,
            "it is Pincer itself, which would start itself for ever",
        ),
    ] {
        let reading = read(Client::Cursor, 0, &format!(r#"{{ "mcpServers": {{ "a": {server} }} }}"#));
        assert!(reading.servers.is_empty(), "{server}");
        assert_eq!(reading.left_out[0].reason.to_string(), reason, "{server}");
    }
}

#[test]
fn odd_servers_are_read_as_well_as_they_can_be() {
    for (server, expected, remark) in [
        (
            r#"{ "command": "x", "url": "http://y" }"#,
            json!({ "command": "x" }),
            "`url` is left out: a server has a `command` or a `url`, not both",
        ),
        (
            r#"{ "command": "x", "url": "http://y", "type": "http" }"#,
            json!({ "type": "http", "url": "http://y" }),
            "`command` is left out: the `type` is that of a `url`",
        ),
        (
            r#"{ "url": "http://y", "env": { "A": "b" } }"#,
            json!({ "url": "http://y" }),
            "`env` is left out: it is of no use with a `url`",
        ),
        (
            r#"{ "type": "stdio", "url": "http://y", "zzz": 1 }"#,
            json!({ "url": "http://y" }),
            "`zzz` is left out: it is not understood",
        ),
        (
            r#"{ "command": "x", "disabled": "yes" }"#,
            json!({ "command": "x" }),
            "`disabled` is left out: it is not true or false",
        ),
        (r#"{ "command": "x", "disabled": true, "enabled": true }"#, json!({ "command": "x", "enabled": false }), ""),
        (r#"{ "command": "pincer", "args": ["run"] }"#, json!({ "command": "pincer", "args": ["run"] }), ""),
        (r#"{ "serverUrl": "https://w", "description": "d", "cwd": null }"#, json!({ "url": "https://w" }), ""),
    ] {
        let reading = read(Client::Cursor, 0, &format!(r#"{{ "mcpServers": {{ "a": {server} }} }}"#));
        assert_eq!(shown(&reading)["a"], expected, "{server}");
        assert_eq!(remarks(&reading).join("; "), remark, "{server}");
    }
}
