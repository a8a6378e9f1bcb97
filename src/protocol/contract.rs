//! The T3 whose contract a protocol's types are of, and how a server's version compares with it.

use std::cmp::Ordering;
use std::fmt;

use semver::Version;

use super::{v1, v2};

/// Which T3 it is, as far as the exporter could tell.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Contract {
    /// T3's version.
    pub version: Option<&'static str>,
    /// The day or month that it is of.
    pub date: Option<&'static str>,
}

impl Contract {
    /// That of an orchestration protocol.
    pub fn of(protocol: u32) -> Option<Self> {
        match protocol {
            1 => Some(v1::CONTRACT),
            2 => Some(v2::CONTRACT),
            _ => None,
        }
    }

    /// How a server's version compares with it; none where either is not known. What follows a `+` counts for nothing.
    pub fn compare(&self, server: &str) -> Option<Ordering> {
        let version = |text: &str| Version::parse(text.trim().trim_start_matches('v')).ok();
        Some(version(server)?.cmp_precedence(&version(self.version?)?))
    }
}

impl fmt::Display for Contract {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.version, self.date) {
            (Some(version), Some(date)) => write!(f, "T3 {version} of {date}"),
            (Some(version), None) => write!(f, "T3 {version}"),
            (None, Some(date)) => write!(f, "a T3 of {date}"),
            (None, None) => f.write_str("an unknown T3"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cmp::Ordering;

    use super::Contract;

    #[test]
    fn versions_compare_as_releases_do() {
        let contract = Contract {
            version: Some("0.0.32"),
            date: None,
        };
        for (server, order) in [
            ("0.0.32", Some(Ordering::Equal)),
            ("v0.0.32+linux.3", Some(Ordering::Equal)),
            ("0.0.100", Some(Ordering::Greater)),
            ("0.0.33-nightly.20261130.7", Some(Ordering::Greater)),
            ("0.0.32-nightly.20260801.1", Some(Ordering::Less)),
            ("0.0.9", Some(Ordering::Less)),
            ("development", None),
            ("", None),
        ] {
            assert_eq!(contract.compare(server), order, "{server}");
        }
        let nameless = Contract {
            version: None,
            date: Some("2026-11"),
        };
        assert_eq!(nameless.compare("0.0.32"), None);
    }

    #[test]
    fn a_contract_is_told_by_what_is_known_of_it() {
        let told = |version, date| Contract { version, date }.to_string();
        assert_eq!(told(Some("0.0.32"), Some("2026-08-07")), "T3 0.0.32 of 2026-08-07");
        assert_eq!(told(None, Some("2026-11")), "a T3 of 2026-11");
        assert!(Contract::of(1).is_some() && Contract::of(2).is_some());
        assert_eq!(Contract::of(3), None);
    }
}
