//! How a credential is renewed, in the words that people and agents are told.

use crate::fleet::{Member, Origin};
use crate::machine::pairing::NEEDED_SCOPES;

/// The command that issues a right token on the T3 host.
pub const ISSUE: &str = "t3 auth session issue --scope orchestration:read --scope orchestration:operate; an older T3 has no --scope and always grants all: leave it out there";

/// How the machine's credential is renewed.
pub fn renewal(member: &Member) -> String {
    let name = member.name();
    match &member.rules.token {
        Origin::Given => format!("On the T3 host of {name}: {ISSUE}. Give the gateway the token that it prints."),
        Origin::Variable(variable) => format!(
            "On the T3 host of {name}: {ISSUE}. Put the token that it prints into {variable} where the gateway runs, and start that again."
        ),
        Origin::Pairing { by_agents, .. } => {
            let tool = if *by_agents {
                ", or call t3_pair with the code of that link"
            } else {
                ""
            };
            format!(
                "On the T3 host of {name}: t3 pair. Then, where the gateway runs: t3code-mcp pair {name} '<link>'{tool}. It need not be restarted."
            )
        }
    }
}

/// What the gateway needs and these scopes lack.
pub(super) fn missing_scopes(scopes: &[String]) -> Vec<String> {
    let lacks = |needed: &&str| !scopes.iter().any(|scope| scope == needed);
    NEEDED_SCOPES.into_iter().filter(lacks).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_asks_for_what_is_needed_and_nothing_more() {
        let asked: Vec<&str> = ISSUE
            .split(';')
            .next()
            .unwrap_or_default()
            .split("--scope ")
            .skip(1)
            .map(str::trim)
            .collect();
        assert_eq!(asked, NEEDED_SCOPES);
    }

    #[test]
    fn what_is_missing_is_named() {
        let scopes = ["orchestration:read", "terminal:operate"].map(str::to_owned);
        assert_eq!(missing_scopes(&scopes), ["orchestration:operate"]);
        assert_eq!(missing_scopes(&[]).len(), 2);
    }
}
