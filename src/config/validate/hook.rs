//! The hook: where events go, what proves them, and what is odd about it.

use std::net::{IpAddr, Ipv4Addr};

use secrecy::SecretString;
use url::{Host, Url};

use super::Check;
use crate::config::raw::RawHook;
use crate::config::{HookConfig, Note, secrets, values};

impl Check<'_> {
    /// The hook; none where there is none, or where an error says what is wrong with it.
    pub(super) fn hook(&mut self, raw: RawHook) -> Option<HookConfig> {
        if raw == RawHook::default() {
            return None;
        }
        let url = self.required(
            "hook.url",
            "url = \"https://gateway.example/hooks/t3code\", or take [hook] out",
            raw.url.as_deref(),
        );
        let url = url.and_then(|url| self.take("hook.url", values::hook_url(url)));
        let token = raw.token_env.map(|variable| {
            self.named_token(
                "hook.token_env",
                &variable,
                "Set it to the receiver's token, or take token_env out",
            )
        });
        if raw.previous_secret_env.is_some() && raw.secret_env.is_none() {
            self.wrong(
                "hook.previous_secret_env",
                "stands there without secret_env. Name the variable of the new secret there",
            );
        }
        let secrets: Vec<_> = [
            ("hook.secret_env", raw.secret_env),
            ("hook.previous_secret_env", raw.previous_secret_env),
        ]
        .into_iter()
        .filter_map(|(path, variable)| Some(self.signing_secret(path, &variable?)))
        .collect();
        let ca_file = raw.ca_file.map(|file| self.ca_file("hook.ca_file", &file));
        let url = url?;
        if url.scheme() == "http" && !is_near(&url) {
            self.notes.push(Note::Warning(
                "hook.url is http on a public address: whoever is on the way reads the events and the token. Take https".to_owned(),
            ));
        }
        // An inner none stands where an error was noted.
        let token = match token {
            Some(token) => Some(token?),
            None => None,
        };
        let ca_file = match ca_file {
            Some(file) => Some(file?),
            None => None,
        };
        Some(HookConfig {
            url,
            token,
            secrets: secrets.into_iter().collect::<Option<_>>()?,
            ca_file,
            credentials: raw.credentials,
        })
    }

    fn signing_secret(&mut self, path: &str, variable: &str) -> Option<SecretString> {
        let secret = self.named_token(path, variable, "Set it to the secret, or take the key out")?;
        if let Err(problem) = secrets::signing(&secret) {
            self.wrong(path, format!("names {variable}, which {problem}"));
            return None;
        }
        Some(secret)
    }
}

/// On this computer or in a private network, by the address or by the look of the name.
fn is_near(url: &Url) -> bool {
    /// Endings of names that no public server has.
    const PRIVATE_NAMES: &[&str] = &[
        ".localhost",
        ".local",
        ".internal",
        ".lan",
        ".home.arpa",
        ".test",
        ".ts.net",
    ];
    match url.host() {
        Some(Host::Domain(name)) => !name.contains('.') || PRIVATE_NAMES.iter().any(|ending| name.ends_with(ending)),
        Some(Host::Ipv4(ip)) => is_near_v4(ip),
        Some(Host::Ipv6(ip)) => match ip.to_canonical() {
            IpAddr::V4(ip) => is_near_v4(ip),
            IpAddr::V6(ip) => ip.is_loopback() || ip.is_unique_local() || ip.is_unicast_link_local(),
        },
        None => false,
    }
}

fn is_near_v4(ip: Ipv4Addr) -> bool {
    // 100.64.0.0/10 is what VPNs such as Tailscale give out.
    let shared = matches!(ip.octets(), [100, second, ..] if second & 0xC0 == 64);
    ip.is_loopback() || ip.is_private() || ip.is_link_local() || shared
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_near_is_told_from_the_public() {
        for url in [
            "http://127.0.0.1:1",
            "http://10.1.2.3",
            "http://192.168.0.9/x",
            "http://100.64.0.7",
            "http://100.127.9.9",
            "http://[::1]",
            "http://[fd00::1]",
            "http://[::ffff:10.0.0.1]",
            "http://localhost",
            "http://gateway:8080",
            "http://box.local",
        ] {
            assert!(is_near(&url.parse().unwrap()), "{url}");
        }
        for url in [
            "http://8.8.8.8",
            "http://100.128.0.1",
            "http://gateway.example",
            "http://[2001:db8::1]",
            "http://172.32.0.1",
        ] {
            assert!(!is_near(&url.parse().unwrap()), "{url}");
        }
    }
}
