//! The runs that processes die in.

/// A run that a process may die in.
pub(crate) struct Scene {
    pub name: &'static str,
    /// The config beside what every scene has.
    pub config: &'static str,
    /// The script of the model.
    pub script: fn() -> String,
    /// The effects that it has, each once.
    pub effects: u32,
    /// The most commits, from accepting the message to its end. Approvals are not in the budget of the plain scenes.
    pub most_commits: u64,
    /// The most rows that are in the store afterwards. Nothing of a plain run is deleted, so that is what was inserted.
    pub most_rows: u64,
    /// The compactions on the way.
    pub compactions: usize,
}

pub(crate) const SCENES: [Scene; 8] = [
    Scene {
        name: "ten calls in one reply",
        config: "",
        script: at_once,
        effects: 10,
        most_commits: 15,
        most_rows: 30,
        compactions: 0,
    },
    Scene {
        name: "ten calls one after the other",
        config: "",
        script: in_a_row,
        effects: 10,
        most_commits: 24,
        most_rows: 30,
        compactions: 0,
    },
    // Its run and its end are two, and each call has a checkpoint, a note that it is made, and its outcome.
    Scene {
        name: "a program with ten calls",
        config: CODE_MODE,
        script: program,
        effects: 10,
        most_commits: 40,
        most_rows: 40,
        compactions: 0,
    },
    Scene {
        name: "a question",
        config: ASKING,
        script: question,
        effects: 2,
        most_commits: 20,
        most_rows: 30,
        compactions: 0,
    },
    Scene {
        name: "a question in a program",
        config: ASKING_IN_PROGRAM,
        script: question_in_program,
        effects: 2,
        most_commits: 30,
        most_rows: 30,
        compactions: 0,
    },
    Scene {
        name: "a call of the sender",
        config: "",
        script: sender,
        effects: 1,
        most_commits: 20,
        most_rows: 30,
        compactions: 0,
    },
    Scene {
        name: "a call of the sender in a program",
        config: CODE_MODE,
        script: sender_in_program,
        effects: 2,
        most_commits: 30,
        most_rows: 30,
        compactions: 0,
    },
    // Each compaction is one commit: the provider counts so many tokens that each call is followed by one.
    Scene {
        name: "three compactions",
        config: NARROW,
        script: compactions,
        effects: 3,
        most_commits: 14,
        most_rows: 20,
        compactions: 3,
    },
];

const NARROW: &str = "agents: { defaults: { model: 'scripted/narrow', compaction: { keepRecentTokens: 20 } } }";

const CODE_MODE: &str = "tools: { codeMode: true }";
const ASKING: &str = "approvals: { rules: [{ match: 'plugin:test:ask', decision: 'ask' }] }";
const ASKING_IN_PROGRAM: &str =
    "tools: { codeMode: true }, approvals: { rules: [{ match: 'plugin:test:ask', decision: 'ask' }] }";

/// A call that may have been interrupted does not end the program.
const TELLING: &str = "const tell = (call) => call.catch((error) => console.log(error.message));\n";

fn conversation(replies: &[String]) -> String {
    format!(
        "{{ order: 'conversation', replies: [{}, {{ parts: [{{ text: 'Done.' }}], repeat: true }}] }}",
        replies.join(", ")
    )
}

fn call(tool: &str, number: u32) -> String {
    format!("{{ call: {{ id: 'c{number}', name: '{tool}', arguments: {{ n: {number} }} }} }}")
}

fn exec(code: &str) -> String {
    format!(
        "{{ parts: [{{ call: {{ id: 'x', name: 'exec', arguments: {{ code: {} }} }} }}] }}",
        serde_json::json!(code)
    )
}

fn at_once() -> String {
    let calls: Vec<String> = (0..10).map(|number| call("mark", number)).collect();
    conversation(&[format!("{{ parts: [{}] }}", calls.join(", "))])
}

fn in_a_row() -> String {
    let replies: Vec<String> = (0..10).map(|number| format!("{{ parts: [{}] }}", call("mark", number))).collect();
    conversation(&replies)
}

fn program() -> String {
    conversation(&[exec(&format!(
        "{TELLING}for (let n = 0; n < 10; n++) await tell(tools.mark({{ n }}));\nreturn 'ok'"
    ))])
}

fn question() -> String {
    conversation(&[format!("{{ parts: [{}, {}] }}", call("mark", 0), call("ask", 1))])
}

fn question_in_program() -> String {
    conversation(&[exec(&format!(
        "{TELLING}await tell(tools.mark({{ n: 0 }}));\nawait tell(tools.ask({{ n: 1 }}));\nreturn 'ok'"
    ))])
}

/// The replies depend on what the request has, so that they are the same after a death.
fn compactions() -> String {
    let step = |number: u32| {
        let call = format!("{{ call: {{ id: 'call-{number}', name: 'mark', arguments: {{ n: {number} }} }} }}");
        format!("parts: [{call}], usage: {{ input: 5000, output: 10 }}")
    };
    let after = |number: u32, reply: String| format!("{{ expect: {{ contains: 'call-{number}' }}, {reply} }}");
    let replies = [
        "{ expect: { tools: [] }, parts: [{ text: 'Marks are made.' }] }".to_owned(),
        after(2, "parts: [{ text: 'Done.' }]".to_owned()),
        after(1, step(2)),
        after(0, step(1)),
        format!("{{ {} }}", step(0)),
    ];
    format!("{{ strict: true, order: 'matching', replies: [{}] }}", replies.join(", "))
}

fn sender() -> String {
    conversation(&[format!("{{ parts: [{}, {}] }}", call("mark", 0), call("choose", 1))])
}

fn sender_in_program() -> String {
    conversation(&[exec(&format!(
        "{TELLING}await tell(tools.mark({{ n: 0 }}));\nawait tell(tools.choose({{}}));\nawait tell(tools.mark({{ n: 1 }}));\nreturn 'ok'"
    ))])
}
