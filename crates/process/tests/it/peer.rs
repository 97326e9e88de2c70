//! The user at the other end of a connection.
#![cfg(target_os = "linux")]

use std::io::Read;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use pincer_process::{Peer, peer};

/// How long an event may take before a test fails.
const PATIENCE: Duration = Duration::from_secs(20);

#[test]
fn another_user_is_told_apart() {
    let is_root = own_user() == 0;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    // Only root can become another user; others find themselves.
    let become_other = if is_root { "os.setuid(65534);" } else { "" };
    let code = format!(
        "import os,socket,sys; {become_other} s = socket.socket(); s.connect((b'127.0.0.1', {})); sys.stdin.read()",
        address.port()
    );
    let mut client = Command::new("python3").args(["-c", &code]).stdin(Stdio::piped()).spawn().unwrap();
    let (tell, told) = channel();
    thread::spawn(move || tell.send(listener.accept().unwrap()));
    let (connection, theirs) = told.recv_timeout(PATIENCE).expect("a connection in time");
    assert_eq!(peer(theirs, address), if is_root { Peer::Other } else { Peer::Same });
    drop((client.stdin.take(), connection));
    assert!(client.wait().unwrap().success());
}

#[test]
fn a_connection_without_another_end_is_nobodys_we_know() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let ours = listener.local_addr().unwrap();
    let client = TcpStream::connect(ours).unwrap();
    let (mut connection, theirs) = listener.accept().unwrap();
    assert_eq!(peer(theirs, ours), Peer::Same);
    drop(client);
    // The end of what the other side sends is here when it has closed its end.
    assert_eq!(connection.read(&mut [0]).unwrap(), 0);
    assert_eq!(peer(theirs, ours), Peer::Other);
    let never: SocketAddr = "127.0.0.1:1".parse().unwrap();
    assert_eq!(peer(never, ours), Peer::Other);
}

/// Returns the user that this process runs as.
fn own_user() -> u32 {
    std::os::unix::fs::MetadataExt::uid(&std::fs::metadata("/proc/self").unwrap())
}
