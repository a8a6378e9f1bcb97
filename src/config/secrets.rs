//! Tokens: they come from environment variables that the config names, and from nowhere else.

use secrecy::{ExposeSecret as _, SecretString};
use standardwebhooks::Webhook;

use super::env::{Environment, is_variable_name};

/// The token in a variable; none where it is not set. The error shows nothing of it.
pub(super) fn token(environment: &Environment, variable: &str) -> Result<Option<SecretString>, String> {
    let Some(value) = environment.get(variable) else {
        return Ok(None);
    };
    let value = value.trim();
    if value
        .get(.."Bearer ".len())
        .is_some_and(|start| start.eq_ignore_ascii_case("Bearer "))
    {
        return Err("begins with \"Bearer\". Give the token alone".to_owned());
    }
    if value.is_empty() || !value.bytes().all(|b| b.is_ascii_graphic()) {
        return Err(
            "holds characters that a token cannot have (blanks, line breaks, other than ASCII). Copy the token again"
                .to_owned(),
        );
    }
    Ok(Some(SecretString::from(value)))
}

/// How a secret of Standard Webhooks begins.
const SECRET_PREFIX: &str = "whsec_";
/// The base64 of 24 bytes, the least that Standard Webhooks allows.
const SHORTEST_SECRET: usize = 32;

/// Checks a secret that signs. Only the standard's own form: of another, receivers' libraries make different keys. The error shows nothing
/// of it.
pub(super) fn signing(secret: &SecretString) -> Result<(), &'static str> {
    let base64 = secret.expose_secret().strip_prefix(SECRET_PREFIX);
    match base64 {
        Some(base64) if base64.len() >= SHORTEST_SECRET && Webhook::new(base64).is_ok() => Ok(()),
        _ => Err(
            "is no secret of Standard Webhooks: whsec_ and the base64 of at least 24 random bytes. Make one: echo \"whsec_$(openssl rand \
             -base64 32)\"",
        ),
    }
}

/// Checks the name of a variable. It is not shown in the error: it may be the token itself, put there by mistake.
pub(super) fn variable_name(name: &str) -> Result<(), String> {
    if is_variable_name(name) {
        return Ok(());
    }
    Err("is no name of an environment variable (letters, digits, `_`). Write the variable's name here, not the token; if this was a real \
         token, replace it"
        .to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_taken_without_the_blanks_around_it() {
        let environment = Environment::from_pairs([("T", " abc.DEF-1 \n")]);
        assert_eq!(token(&environment, "T").unwrap().unwrap().expose_secret(), "abc.DEF-1");
        assert!(token(&environment, "U").unwrap().is_none());
    }

    #[test]
    fn an_impossible_token_is_refused_and_not_shown() {
        for value in ["Bearer sesame", "bearer sesame", "ses ame", "sesäme", "ses\u{1b}ame"] {
            let problem = token(&Environment::from_pairs([("T", value)]), "T").unwrap_err();
            assert!(!problem.contains("ame"), "{problem}");
        }
    }

    #[test]
    fn a_secret_that_signs_has_the_form_of_the_standard() {
        assert_eq!(signing(&"whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD".into()), Ok(()));
        for secret in [
            "C2FVsBQIhrscChlQIMV+b5sSYspob7oD",
            "whsec_c2hvcnQ=",
            "whsec_sesame-sesame-sesame-sesame-sesame",
        ] {
            assert!(!signing(&secret.into()).unwrap_err().contains("sesame"), "{secret}");
        }
    }

    #[test]
    fn a_token_in_place_of_a_variable_name_is_not_shown() {
        assert!(!variable_name("eyJ.sesame").unwrap_err().contains("sesame"));
    }
}
