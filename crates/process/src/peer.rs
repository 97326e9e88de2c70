//! The user at the other end of a connection within this machine.

use std::fs;
use std::net::{IpAddr, SocketAddr};

/// The user at the other end, as far as the system says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// The user of this process.
    Same,
    /// Another user, or one that cannot be told.
    Other,
    /// This system does not say.
    Untold,
}

/// Returns who is at the other end of a connection from `theirs` to `ours`, both on this machine. The kernel lists the socket at
/// their end with its owner.
pub fn peer(theirs: SocketAddr, ours: SocketAddr) -> Peer {
    if !cfg!(target_os = "linux") {
        return Peer::Untold;
    }
    let own = rustix::process::getuid().as_raw();
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].into_iter().filter_map(|path| fs::read_to_string(path).ok());
    let mut owners = tables.filter_map(|table| owner(&table, theirs, ours));
    if owners.next() == Some(own) { Peer::Same } else { Peer::Other }
}

/// Returns the owner of the socket from `local` to `remote` in a table of the kernel's.
fn owner(table: &str, local: SocketAddr, remote: SocketAddr) -> Option<u32> {
    /// The state of a connection that is there. One that is closing has lost its owner.
    const ESTABLISHED: &str = "01";
    let (local, remote) = (spellings(local), spellings(remote));
    table.lines().skip(1).find_map(|line| {
        let mut words = line.split_ascii_whitespace().skip(1);
        let (from, to, state) = (words.next()?, words.next()?, words.next()?);
        let is_it = local.iter().zip(&remote).any(|(local, remote)| from == local && to == remote);
        let owner = words.nth(3)?;
        (is_it && state == ESTABLISHED).then(|| owner.parse().ok())?
    })
}

/// Returns how the tables spell an address: words of 32 bits as the machine has them in memory, and the port. An IPv4 address may be
/// in the table of IPv6.
fn spellings(address: SocketAddr) -> [String; 2] {
    let hex = |bytes: &[u8]| -> String {
        let words = bytes.chunks_exact(4).map(|word| u32::from_ne_bytes([word[0], word[1], word[2], word[3]]));
        words.map(|word| format!("{word:08X}")).collect()
    };
    let port = address.port();
    match address.ip().to_canonical() {
        IpAddr::V4(ip) => {
            [hex(&ip.octets()), hex(&ip.to_ipv6_mapped().octets())].map(|address| format!("{address}:{port:04X}"))
        }
        IpAddr::V6(ip) => [hex(&ip.octets()), hex(&ip.octets())].map(|address| format!("{address}:{port:04X}")),
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn a_socket_is_found_by_both_of_its_ends() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
               0: 0100007F:1F90 0100007F:9C40 01 00000000:00000000 00:00000000 00000000  1000        0 11 1 0 20 4 30 10 -1\n\
               1: 0100007F:9C40 0100007F:1F90 01 00000000:00000000 00:00000000 00000000   999        0 12 1 0 20 4 30 10 -1\n\
               2: 0100007F:9C41 0100007F:1F90 06 00000000:00000000 03:00000000 00000000     0        0 0 3 0\n";
        let at = |text: &str| text.parse::<SocketAddr>().expect("an address");
        let of = |from: &str, to: &str| owner(table, at(from), at(to));
        if cfg!(target_endian = "little") {
            assert_eq!(of("127.0.0.1:40000", "127.0.0.1:8080"), Some(999));
            assert_eq!(of("127.0.0.1:8080", "127.0.0.1:40000"), Some(1000));
            assert_eq!(of("127.0.0.1:40001", "127.0.0.1:8080"), None, "it is closing");
            assert_eq!(of("127.0.0.2:40000", "127.0.0.1:8080"), None);
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_is_found_at_the_other_end() {
        for address in ["127.0.0.1:0", "[::1]:0", "[::]:0"] {
            let Ok(listener) = TcpListener::bind(address) else { continue };
            let port = listener.local_addr().expect("an address").port();
            let host = if address.starts_with('[') && address.contains('1') { "::1" } else { "127.0.0.1" };
            let client = TcpStream::connect((host, port)).expect("connected");
            let (server, theirs) = listener.accept().expect("accepted");
            assert_eq!(peer(theirs, server.local_addr().expect("an address")), Peer::Same, "{address}");
            drop(client);
        }
    }
}
