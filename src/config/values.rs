//! What a single value must be like: each function takes a value as it was written and says in a sentence what is wrong with it.

use std::net::{IpAddr, Ipv4Addr};

use url::Url;

use super::DEFAULT_CLIENT;

/// A name of a machine or a client is no longer.
const LONGEST_NAME: usize = 64;
/// The largest frame that can be asked for, in MiB.
const LARGEST_FRAME_MIB: i64 = 1024;

pub(super) fn name(name: &str) -> Result<(), String> {
    let fits = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    if name.len() <= LONGEST_NAME
        && name.bytes().all(fits)
        && name.as_bytes().first().is_some_and(u8::is_ascii_alphanumeric)
    {
        return Ok(());
    }
    Err(format!(
        "has a name that callers could not write. Take letters, digits, `-` and `_`, at most {LONGEST_NAME}"
    ))
}

pub(super) fn client_name(client: String) -> Result<String, String> {
    if client == DEFAULT_CLIENT {
        return Err(format!(
            "is {DEFAULT_CLIENT:?}, the name of the caller behind the default bearer. Take another"
        ));
    }
    name(&client).map(|()| client)
}

/// Where events go. What is wrong with it is said without showing it: a receiver's URL may hold its password.
pub(super) fn hook_url(text: &str) -> Result<Url, String> {
    const EXAMPLE: &str = "Write one such as \"https://gateway.example/hooks/t3code\"";
    let url = web_url(text, EXAMPLE)?;
    if url.fragment().is_some() {
        return Err(format!("has a fragment (#), which is never sent. {EXAMPLE}"));
    }
    Ok(url)
}

/// A T3 server's address. What is wrong with it is said without showing it: a URL with a password is one of the wrong ones.
pub(super) fn url(text: &str) -> Result<Url, String> {
    const EXAMPLE: &str = "Write one such as \"http://100.64.0.7:3773\"";
    let url = web_url(text, EXAMPLE)?;
    if url.path() != "/" || url.query().is_some() || url.fragment().is_some() {
        return Err(format!("has more than scheme, host and port. {EXAMPLE}"));
    }
    Ok(url)
}

/// An http or https URL without a user in it.
fn web_url(text: &str, example: &str) -> Result<Url, String> {
    let url = Url::parse(text).map_err(|error| format!("is no URL ({error}). {example}"))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(format!("is neither http nor https. {example}"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(
            "holds a user or a password. Take them out: the token goes into the variable that token_env names"
                .to_owned(),
        );
    }
    Ok(url)
}

pub(super) fn patterns(patterns: Vec<String>) -> Result<Vec<String>, String> {
    if patterns.is_empty() {
        return Err("is empty, so no project would exist. Write [\"*\"] to show all".to_owned());
    }
    if patterns.iter().any(|pattern| pattern.trim().is_empty()) {
        return Err("holds an empty pattern, which matches nothing. Take it out".to_owned());
    }
    Ok(patterns)
}

pub(super) fn model(model: String) -> Result<String, String> {
    let blank = model.chars().any(|c| c.is_whitespace() || c.is_control());
    if model.is_empty() || blank || model.starts_with(['/', ':']) || model.ends_with(['/', ':']) {
        return Err("is no model. Write instance/model, such as \"claudeAgent/claude-opus-5\"".to_owned());
    }
    Ok(model)
}

pub(super) fn frame_limit(mib: i64) -> Result<usize, String> {
    let bytes = usize::try_from(mib).ok().and_then(|mib| mib.checked_mul(1024 * 1024));
    match bytes {
        Some(bytes) if (1..=LARGEST_FRAME_MIB).contains(&mib) => Ok(bytes),
        _ => Err(format!("is {mib}. Write a number from 1 to {LARGEST_FRAME_MIB}")),
    }
}

pub(super) fn host(host: &str) -> Result<IpAddr, String> {
    if host == "localhost" {
        return Ok(IpAddr::V4(Ipv4Addr::LOCALHOST));
    }
    let bare = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'))
        .unwrap_or(host);
    bare.parse().map_err(|_| {
        format!("is {host:?}, which is no IP address. Write one, such as \"127.0.0.1\" or \"0.0.0.0\" for all")
    })
}

pub(super) fn allowed_host(value: &str) -> Result<(), String> {
    let parsed = value.parse::<http::uri::Authority>();
    if parsed.is_ok_and(|authority| !authority.host().is_empty() && !value.contains('@')) {
        return Ok(());
    }
    Err(format!(
        "is {value:?}, which is no host. Write a name such as \"t3.example\" or \"t3.example:8000\", without http://"
    ))
}

/// An origin as a browser writes it; `*` may stand for its port.
pub(super) fn allowed_origin(value: &str) -> Result<String, String> {
    if value == "null" {
        return Ok(value.to_owned());
    }
    let (base, any_port) = match value.strip_suffix(":*") {
        Some(base) => (base, ":*"),
        None => (value, ""),
    };
    match Url::parse(base) {
        Ok(url)
            if matches!(url.scheme(), "http" | "https")
                && url.path() == "/"
                && url.username().is_empty()
                && (any_port.is_empty() || url.port().is_none()) =>
        {
            Ok(url.origin().ascii_serialization() + any_port)
        }
        _ => Err(format!(
            "is {value:?}, which is no origin. Write scheme, host and, where it is not the usual one, port, such as \"https://app.example\""
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_is_kept_as_a_browser_writes_it() {
        for (written, kept) in [
            ("https://App.example/", "https://app.example"),
            ("https://app.example:443", "https://app.example"),
            ("http://localhost:*", "http://localhost:*"),
            ("http://[::1]:3000", "http://[::1]:3000"),
            ("null", "null"),
        ] {
            assert_eq!(allowed_origin(written).unwrap(), kept);
        }
        for written in [
            "app.example",
            "https://app.example/path",
            "file:///x",
            "https://me@app.example",
            "http://x:1:*",
            "*",
        ] {
            assert!(allowed_origin(written).is_err(), "{written}");
        }
    }

    #[test]
    fn an_address_is_given_as_such_and_never_looked_up() {
        assert_eq!(host("localhost").unwrap().to_string(), "127.0.0.1");
        assert_eq!(host("[::1]").unwrap().to_string(), "::1");
        assert!(host("example.org").is_err());
    }
}
