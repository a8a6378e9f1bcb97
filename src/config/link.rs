//! A pairing link, as T3 prints it: where the machine is, and a code that is good once. Pure.
//!
//! `http://host:3773/pair#token=CODE`. The code is a secret until it was used: no error repeats it, nor anything else of the link.

use secrecy::SecretString;
use url::Url;

/// A link is no longer.
const LONGEST_LINK: usize = 2048;
/// T3's codes have 12 characters.
const CODE_LENGTHS: std::ops::RangeInclusive<usize> = 4..=128;
/// The key before the code.
const KEY: &str = "token";
/// What a whole link looks like.
const EXAMPLE: &str =
    "Copy the whole link that `t3 pair` prints on the T3 host, such as 'http://100.64.0.7:3773/pair#token=CODE'";
/// Shells and chats leave these around what was copied.
const QUOTES: &[char] = &['\'', '"', '`', '<', '>', '\u{2018}', '\u{2019}', '\u{201c}', '\u{201d}'];

/// A link that was read.
#[derive(Clone, Debug)]
pub struct PairingLink {
    /// Scheme, host and port alone.
    pub url: Url,
    /// Good once, for a few minutes.
    pub code: SecretString,
}

impl PairingLink {
    /// Reads a link. The error says what is wrong with it and how to mend it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim().trim_matches(QUOTES).trim();
        if text.len() > LONGEST_LINK || text.chars().any(|c| c.is_whitespace() || c.is_control() || c == '\\') {
            return Err(format!("the link holds what no link has. {EXAMPLE}"));
        }
        let mut url = address(text).map_err(|problem| format!("the link {problem}. {EXAMPLE}"))?;
        if !matches!(url.path(), "/" | "/pair" | "/pair/") {
            return Err(format!("the link goes to another page than /pair. {EXAMPLE}"));
        }
        let fragment = url.fragment().map(str::to_owned);
        let query = url.query().map(str::to_owned);
        let parts = [fragment.as_deref(), query.as_deref()].into_iter().flatten();
        let pairs: Vec<_> = parts
            .filter(|part| !part.is_empty())
            .flat_map(|part| url::form_urlencoded::parse(part.as_bytes()))
            .collect();
        let code = match pairs.as_slice() {
            [(key, code)] if key == KEY => self::code(code)?,
            [] => {
                return Err(format!(
                    "the link has no code: what stands behind # was lost, as shells do with what is not quoted. {EXAMPLE}, in quotes"
                ));
            }
            _ => {
                return Err(format!(
                    "the link holds more, or other things, than one code. {EXAMPLE}"
                ));
            }
        };
        url.set_path("/");
        url.set_query(None);
        url.set_fragment(None);
        Ok(Self { url, code })
    }

    /// The link of a code and an address that were given apart.
    pub fn of(code: &str, url: &str) -> Result<Self, String> {
        let code = self::code(code.trim().trim_matches(QUOTES))?;
        let text = url.trim().trim_matches(QUOTES);
        let url = address(text)
            .map_err(|problem| format!("the address {problem}. Write one such as http://100.64.0.7:3773"))?;
        if url.path() != "/" || url.query().is_some() || url.fragment().is_some() {
            return Err(
                "the address has more than scheme, host and port. Write one such as http://100.64.0.7:3773".to_owned(),
            );
        }
        Ok(Self { url, code })
    }
}

/// Reads a code that stands alone.
pub fn code(text: &str) -> Result<SecretString, String> {
    let text = text.trim();
    let fits = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b'~');
    if CODE_LENGTHS.contains(&text.len()) && text.bytes().all(fits) {
        return Ok(SecretString::from(text));
    }
    Err(
        "that is no pairing code: T3's are 12 capitals and digits. Make a new one with `t3 pair` on the T3 host"
            .to_owned(),
    )
}

/// An http or https URL with a host and nobody's name in it.
fn address(text: &str) -> Result<Url, &'static str> {
    let url = Url::parse(text).map_err(|_| "is no URL")?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err("is neither http nor https");
    }
    // `http://t3.example@evil.example` goes to the latter.
    if !url.username().is_empty() || url.password().is_some() || authority(text).contains('@') {
        return Err("holds a user or a password, which hides where it goes");
    }
    if !url.has_host() {
        return Err("names no host");
    }
    Ok(url)
}

/// What stands between the slashes, as it was written.
fn authority(text: &str) -> &str {
    let behind = text.split_once("://").map_or(text, |(_, behind)| behind);
    behind.split(['/', '?', '#']).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use secrecy::ExposeSecret as _;

    use super::*;

    #[test]
    fn a_link_is_read_as_it_is_copied() {
        for text in [
            "http://127.0.0.1:3773/pair#token=VKGMYNQHMBDB",
            " 'http://127.0.0.1:3773/pair#token=VKGMYNQHMBDB'\n",
            "\"http://127.0.0.1:3773/pair?token=VKGMYNQHMBDB\"",
            "<http://127.0.0.1:3773/?token=VKGMYNQHMBDB>",
            "http://127.0.0.1:3773#token=VKGMYNQHMBDB",
        ] {
            let link = PairingLink::parse(text).unwrap();
            assert_eq!(link.url.as_str(), "http://127.0.0.1:3773/", "{text}");
            assert_eq!(link.code.expose_secret(), "VKGMYNQHMBDB", "{text}");
        }
        let link = PairingLink::parse("https://box.example/pair#token=VKGMYNQHMBDB").unwrap();
        assert_eq!(link.url.as_str(), "https://box.example/");
        let link = PairingLink::of("VKGMYNQHMBDB", "https://box.example:3773").unwrap();
        assert_eq!(link.url.as_str(), "https://box.example:3773/");
    }

    #[test]
    fn a_hostile_or_broken_link_is_refused_and_not_repeated() {
        let long = format!("http://h/pair#token={}", "S".repeat(4000));
        for text in [
            "",
            "SESAMESESAME",
            "http://h/pair",
            "http://h/pair#",
            "http://h/pair#token=",
            "http://h/pair#token=SESAME SESAME",
            "http://h/pair#token=SESAME%00SESAME",
            "http://h/pair#token=SESAMESESAME&token=OTHEROTHER",
            "http://h/pair?token=SESAMESESAME#token=OTHEROTHER",
            "http://h/pair?host=http://evil#token=SESAMESESAME",
            "http://h/elsewhere#token=SESAMESESAME",
            "http://t3.example@evil.example/pair#token=SESAMESESAME",
            "http://:@evil.example/pair#token=SESAMESESAME",
            "http://@evil.example/pair#token=SESAMESESAME",
            "http://t3.example\\@evil.example/pair#token=SESAMESESAME",
            "http:\\\\evil.example/pair#token=SESAMESESAME",
            "ftp://h/pair#token=SESAMESESAME",
            "javascript:alert(1)#token=SESAMESESAME",
            "file:///pair#token=SESAMESESAME",
            "http://h/pair\u{1b}[2J#token=SESAMESESAME",
            &long,
        ] {
            let problem = PairingLink::parse(text).unwrap_err();
            assert!(
                !problem.contains("SESAME") && !problem.contains("evil"),
                "{text}: {problem}"
            );
        }
        assert!(PairingLink::of("SESAMESESAME", "http://h/pair").is_err());
        assert!(PairingLink::of("a b", "http://h").is_err());
    }
}
