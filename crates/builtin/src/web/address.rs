//! Which addresses are the public internet's, and names resolved to those only.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use globset::GlobMatcher;
use reqwest::Url;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

/// Hosts that may be within this network.
#[derive(Clone, Default)]
pub(super) struct Private(pub Arc<[GlobMatcher]>);

/// Why a host is not connected to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum AddressError {
    #[error(
        "{host} is an address within this network ({address}), which is not allowed; an operator can allow it with tools.web.allowHosts"
    )]
    Within { host: String, address: IpAddr },
    #[error("there is no address for {host}")]
    Unknown { host: String },
    #[error("{url} cannot be fetched: only http and https can")]
    Scheme { url: String },
    #[error("{url} names no host")]
    NoHost { url: String },
}

impl Private {
    fn allows(&self, host: &str) -> bool {
        let host = host.trim_matches(['[', ']']).trim_end_matches('.').to_ascii_lowercase();
        self.0.iter().any(|pattern| pattern.is_match(&host))
    }

    /// Checks what can be seen in an address itself. Names are checked when they are resolved.
    pub(super) fn check(&self, url: &Url) -> Result<(), AddressError> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(AddressError::Scheme { url: url.to_string() });
        }
        let host = url.host_str().ok_or_else(|| AddressError::NoHost { url: url.to_string() })?;
        match host.trim_matches(['[', ']']).parse::<IpAddr>() {
            Ok(address) if !is_public(address) && !self.allows(host) => {
                Err(AddressError::Within { host: host.into(), address })
            }
            _ => Ok(()),
        }
    }
}

impl Resolve for Private {
    /// The connection is made to one of the addresses that are returned here: there is no second look-up to answer otherwise.
    fn resolve(&self, name: Name) -> Resolving {
        let private = self.clone();
        Box::pin(async move {
            let host = name.as_str().to_owned();
            let found = tokio::net::lookup_host((host.as_str(), 0)).await;
            let found: Vec<SocketAddr> = found.map(Iterator::collect).unwrap_or_default();
            let Some(first) = found.first() else { return Err(AddressError::Unknown { host }.into()) };
            let address = first.ip();
            let usable: Vec<SocketAddr> =
                found.into_iter().filter(|found| is_public(found.ip()) || private.allows(&host)).collect();
            if usable.is_empty() {
                return Err(AddressError::Within { host, address }.into());
            }
            Ok(Box::new(usable.into_iter()) as Addrs)
        })
    }
}

fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let special = match (a, b, c) {
        // This network, carrier-grade NAT, protocol assignments, relays, benchmarks, and what is reserved.
        (0, ..) | (100, 64..=127, _) | (192, 0, 0) | (192, 88, 99) | (198, 18..=19, _) | (240.., ..) => true,
        _ => false,
    };
    !(special
        || address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_documentation()
        || address.is_multicast())
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let parts = address.segments();
    let within = |high: u16, low: u16| is_public_v4(Ipv4Addr::from((u32::from(high) << 16) | u32::from(low)));
    match parts {
        // An IPv4 address in another dress.
        [0, 0, 0, 0, 0, 0xffff | 0, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => within(high, low),
        [0x2002, high, low, ..] => within(high, low),
        // Tunnels, documentation, discard, local translation.
        [0x2001, 0..=0x1ff | 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] | [0x100, 0, 0, 0, ..] | [0x64, 0xff9b, ..] => false,
        // Only this is given out as global unicast.
        [first, ..] => first & 0xe000 == 0x2000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_public_addresses_are_public() {
        for address in [
            "127.0.0.1",
            "10.1.2.3",
            "172.16.0.1",
            "192.168.1.1",
            "169.254.169.254",
            "0.0.0.0",
            "100.64.0.1",
            "198.18.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "192.0.0.1",
            "192.0.2.1",
            "240.0.0.1",
            "::1",
            "::",
            "fe80::1",
            "fc00::1",
            "fd12::1",
            "ff02::1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "::7f00:1",
            "64:ff9b::7f00:1",
            "64:ff9b:1::1",
            "2002:7f00:1::",
            "2001::1",
            "2001:db8::1",
            "100::1",
            "fec0::1",
            "3fff::1",
            "2001:20::1",
            "::ffff:0:7f00:1",
        ] {
            assert!(!is_public(address.parse().expect(address)), "{address}");
        }
        for address in
            ["1.1.1.1", "8.8.8.8", "172.32.0.1", "192.169.0.1", "2606:4700::1111", "::ffff:8.8.8.8", "2002:808:808::"]
        {
            assert!(is_public(address.parse().expect(address)), "{address}");
        }
    }
}
