//! Programs that do a bit of everything.

use pincer_codemode::Durability;

use crate::effects::PRELUDE;
use crate::random::Random;

/// A program and how it is run.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    /// The beginning of its labels.
    pub name: String,
    pub code: String,
    pub durability: Durability,
    /// It is sent with a key, and may be sent again.
    pub key: Option<String>,
    pub pending_calls: usize,
    pub snapshot_bytes: usize,
    pub timeout_ms: u64,
    /// A crash may end it: it is not stored before each effect.
    pub may_be_lost: bool,
}

const OBJECTS: usize = 300_000;
/// A limit that a heap of so many objects exceeds, and one that it keeps.
const SMALL_SNAPSHOT: usize = 1 << 20;
const LARGE_SNAPSHOT: usize = 64 << 20;

impl Program {
    pub(crate) fn random(random: &mut Random, number: usize, durability: Durability) -> Self {
        let name = format!("p{number}");
        let is_large = random.percent(3);
        let is_too_large = is_large && random.percent(40);
        let mut code = format!("const program = '{name}';{PRELUDE}");
        if is_large {
            code.push_str(&format!("const big = Array.from({{ length: {OBJECTS} }}, (_, i) => ({{ i }}));\n"));
        }
        for _ in 0..random.between(2, 7) {
            code.push_str(&step(random, 0));
            code.push('\n');
            if is_large {
                let place = random.below(OBJECTS);
                code.push_str(&format!("big[{place}].i = Date.now();\n"));
            }
        }
        code.push_str("return { program, nonce, seen };");
        Self {
            key: random.percent(20).then(|| format!("key-{name}")),
            name,
            code,
            durability,
            pending_calls: random.between(2, 6),
            snapshot_bytes: if is_too_large { SMALL_SNAPSHOT } else { LARGE_SNAPSHOT },
            timeout_ms: if is_large { 20_000 } else { random.between(400, 4000) as u64 },
            may_be_lost: is_too_large || durability == Durability::Parked,
        }
    }
}

fn tool(random: &mut Random) -> &'static str {
    match random.below(10) {
        0..6 => "mark",
        6..8 => "look",
        8 => "again",
        _ => "ask",
    }
}

/// A call that is waited for by the caller of this.
fn call(random: &mut Random) -> String {
    let more = if random.percent(6) { ", { fails: true }" } else { "" };
    format!("call('{}', {}{more})", tool(random), random.below(12))
}

fn calls(random: &mut Random, from: usize, to: usize) -> String {
    (0..random.between(from, to)).map(|_| call(random)).collect::<Vec<_>>().join(", ")
}

fn step(random: &mut Random, depth: usize) -> String {
    match random.below(12) {
        0..3 => format!("await {};", call(random)),
        3 => format!("await Promise.all([{}]);", calls(random, 2, 6)),
        // What is asked for next depends on which was faster; the others go on.
        4 => format!(
            "{{ const first = await Promise.race([{}]); await call('mark', 1, {{ after: first.label }}); }}",
            calls(random, 2, 4)
        ),
        5 => format!("await sleep({});", random.below(25)),
        6 => format!(
            "{{ const late = await Promise.race([{}, sleep({}).then(() => 'late')]); await call('mark', 0, {{ late: late === 'late' }}); }}",
            call(random),
            random.below(8)
        ),
        7 => "await call('ask', 1);".into(),
        8 => "await yield_control();".into(),
        // More than may run at a time.
        9 => format!(
            "await Promise.all(Array.from({{ length: {} }}, (_, i) => call(i % 4 ? 'mark' : 'look', i % 3)));",
            random.between(5, 14)
        ),
        10 if depth < 2 => {
            let inner: Vec<String> = (0..random.between(1, 3)).map(|_| step(random, depth + 1)).collect();
            let inner = inner.join(" ");
            format!("await Promise.all([0, 1].map(async () => {{ await {}; {inner} }}));", call(random))
        }
        // Not waited for.
        10 | 11 => format!("{};", call(random)),
        _ => String::new(),
    }
}
