//! The kind of network that an address belongs to.
//!
//! Addresses that contain an IPv4 address (mapped, translated, 6to4, ISATAP) are judged by the contained one: that
//! is where the packets are sent.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The kinds of address that matter to a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddressKind {
    Public,
    Metadata,
    Loopback,
    Private,
    LinkLocal,
    CarrierNat,
    Multicast,
    Unspecified,
    Documentation,
    Reserved,
}

impl AddressKind {
    /// Tells whether the user's setting for private addresses can allow it.
    pub fn can_be_allowed(self) -> bool {
        matches!(self, Self::Loopback | Self::Private | Self::LinkLocal | Self::CarrierNat)
    }
}

impl fmt::Display for AddressKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Public => "a public address",
            Self::Metadata => "a cloud metadata service",
            Self::Loopback => "this machine itself",
            Self::Private => "an address of a private network",
            Self::LinkLocal => "a link-local address",
            Self::CarrierNat => "an address of a carrier's or overlay network",
            Self::Multicast => "a multicast address",
            Self::Unspecified => "an unspecified address",
            Self::Documentation => "an address reserved for documentation",
            Self::Reserved => "a reserved address",
        })
    }
}

pub(super) fn classify(address: IpAddr) -> AddressKind {
    match address {
        IpAddr::V4(address) => classify_v4(address),
        IpAddr::V6(address) => classify_v6(address),
    }
}

fn classify_v4(address: Ipv4Addr) -> AddressKind {
    match address.octets() {
        // AWS, Google, Azure, Oracle and others; ECS tasks; EKS pods; Azure's host; Alibaba; Oracle's old one.
        [169, 254, 169, 254]
        | [169, 254, 170, 2 | 23]
        | [168, 63, 129, 16]
        | [100, 100, 100, 200]
        | [192, 0, 0, 192] => AddressKind::Metadata,
        [0, ..] => AddressKind::Unspecified,
        [127, ..] => AddressKind::Loopback,
        // Tunnelling proxies put their placeholder addresses into the benchmarking range, so a user may allow it.
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] | [198, 18 | 19, ..] => AddressKind::Private,
        [100, 64..=127, ..] => AddressKind::CarrierNat,
        [169, 254, ..] => AddressKind::LinkLocal,
        [192, 0, 2, _] | [198, 51, 100, _] | [203, 0, 113, _] => AddressKind::Documentation,
        [224..=239, ..] => AddressKind::Multicast,
        [192, 0, 0, _] | [192, 88, 99, _] | [240..=255, ..] => AddressKind::Reserved,
        _ => AddressKind::Public,
    }
}

fn classify_v6(address: Ipv6Addr) -> AddressKind {
    if let Some(carried) = carried_v4(address) {
        return classify_v4(carried);
    }
    match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0] => AddressKind::Unspecified,
        [0, 0, 0, 0, 0, 0, 0, 1] => AddressKind::Loopback,
        // AWS and Google over IPv6.
        [0xfd00, 0x0ec2, 0, 0, 0, 0, 0, 0x0254] | [0xfd20, 0x00ce, 0, 0, 0, 0, 0, 0x0254] => {
            AddressKind::Metadata
        }
        [0xfc00..=0xfdff | 0xfec0..=0xfeff, ..] | [0x0064, 0xff9b, 1, ..] => AddressKind::Private,
        [0xfe80..=0xfebf, ..] => AddressKind::LinkLocal,
        [0xff00..=0xffff, ..] => AddressKind::Multicast,
        [0x2001, 0x0db8, ..] | [0x3fff, 0..=0x0fff, ..] => AddressKind::Documentation,
        // Teredo, ORCHID and other protocol assignments.
        [0x2001, 0..=0x01ff, ..] => AddressKind::Reserved,
        [0x2000..=0x3fff, ..] => AddressKind::Public,
        _ => AddressKind::Reserved,
    }
}

fn carried_v4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let join = |high: u16, low: u16| Ipv4Addr::from((u32::from(high) << 16) | u32::from(low));
    match address.segments() {
        // `::` and `::1` are not IPv4 addresses, whatever the old compatible form says.
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => None,
        // Compatible, mapped, translated; NAT64; 6to4; ISATAP under a public prefix (a private prefix is refused by
        // itself).
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low]
        | [0, 0, 0, 0, 0xffff, 0, high, low]
        | [0x0064, 0xff9b, 0, 0, 0, 0, high, low]
        | [0x2002, high, low, ..]
        | [0x2000..=0x3fff, _, _, _, 0 | 0x0200, 0x5efe, high, low] => Some(join(high, low)),
        _ => None,
    }
}
