use pincer_sandbox::*;
use std::time::{Duration, Instant};
fn main() {
    let t = Instant::now();
    let dir = std::env::args().nth(1);
    let engine = Engine::load(Options { cache_dir: dir.map(Into::into), progress: Some(Box::new(move |p| eprintln!("{:?} {p}", t.elapsed()))), ..Options::default() }).unwrap();
    println!("load {:?} {} {:?}", t.elapsed(), engine.image_hash(), engine.cache_problems());
    let run = |src: &str| {
        let mut cell = engine.start(Program::new(src).function("call"), Limits::default()).unwrap();
        let t = cell.run_turn(Duration::from_secs(1)).unwrap();
        println!("{src:?} -> {t:?}");
        cell
    };
    run("return 1+2");
    run("let x = ;");
    run("\n  null.x");
    run("while(1);");
    run("await new Promise(()=>{})");
    run("return [typeof Math.random(), Math.random(), Date.now()]");
    run("console.log('hi', {a:1n}, new Map([[1,2]])); text(5); json({d:new Date(0), f(){}, s:Symbol('x')}); const o={};o.o=o; return o");
    run("function f(){return f()+1} return f()");
    run("let a=[]; while(1) a.push(new Array(1000).fill(0))");
    run("try { let a=[]; while(1) a.push(new Array(1000).fill(0)) } catch(e) {return 'caught'}");
    run("Promise.reject(new Error('lost')); return 5");
    let mut c = run("const a=[1,2,3]; const x = await call('y', a); return a.length + x");
    let snap = c.park().unwrap();
    println!("snapshot {}", snap.len());
    let mut c = engine.restore(&snap, Limits::default()).unwrap();
    c.deliver(Answer::value(RequestId(0), Json::parse("2").unwrap())).unwrap();
    println!("{:?}", c.run_turn(Duration::from_secs(1)).unwrap());
    let n = 3000;
    let mut v = vec![]; let mut p = vec![]; let mut r = vec![];
    for _ in 0..n {
        let t = Instant::now();
        let mut cell = engine.start(Program::new("return 1 + 2;"), Limits::default()).unwrap();
        let e = cell.run_turn(Duration::from_secs(10)).unwrap();
        assert!(matches!(e.end, TurnEnd::Value(_)));
        drop(cell);
        v.push(t.elapsed());
    }
    let mut s = 0;
    for _ in 0..n {
        let mut cell = engine.start(Program::new("const a = [1, 2, 3]; await yield_control('x'); return a.length + 2;"), Limits::default()).unwrap();
        cell.run_turn(Duration::from_secs(10)).unwrap();
        let t = Instant::now();
        let snap = cell.park().unwrap(); s = snap.len();
        p.push(t.elapsed());
        drop(cell);
        let t = Instant::now();
        let mut cell = engine.restore(&snap, Limits::default()).unwrap();
        cell.deliver(Answer::value(RequestId(0), Json::null())).unwrap();
        let e = cell.run_turn(Duration::from_secs(10)).unwrap();
        assert!(matches!(e.end, TurnEnd::Value(_)));
        drop(cell);
        r.push(t.elapsed());
    }
    for x in [&mut v, &mut p, &mut r] { x.sort(); }
    println!("fresh {:?} park {:?} restore {:?} bytes {s}", v[n/2], p[n/2], r[n/2]);
    let mut cell = engine.start(Program::new("for (let i=0;i<10000;i++) await call(i); return 1").function("call"), Limits::default()).unwrap();
    let t = Instant::now();
    let mut turn = cell.run_turn(Duration::from_secs(10)).unwrap();
    while let TurnEnd::Waiting = turn.end { for q in turn.requests { cell.deliver(Answer::value(q.id, Json::null())).unwrap(); } turn = cell.run_turn(Duration::from_secs(10)).unwrap(); }
    println!("per call {:?}", t.elapsed()/10000);
}
