//! `token`: prints the bearer of the endpoint, so that it can stand in a command.

use secrecy::ExposeSecret as _;
use serde_json::json;

use super::flags::SettingFlags;
use super::{Failure, output};
use crate::config::settings::BEARER_VARIABLE;
use crate::config::state::StateDir;
use crate::config::{Auth, WorkingDirectory};

/// Print the bearer token of the endpoint; the first time, make it.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  claude mcp add --transport http t3code http://127.0.0.1:8000/mcp \\\n    --header \"Authorization: Bearer $(t3code-mcp token)\""
)]
pub(super) struct Args {
    #[command(flatten)]
    settings: SettingFlags<false>,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

/// Prints the bearer.
pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let config = args.settings.load(WorkingDirectory::Config)?;
    if config.server.auth == Auth::None {
        return Err(Failure::said("server.auth is \"none\", so the endpoint takes no token"));
    }
    if !config.server.default_bearer {
        return Err(Failure::said(
            "server.default_bearer is false, so only the tokens of the named clients let in",
        ));
    }
    let (token, from) = if let Some(token) = config.bearer {
        (token, BEARER_VARIABLE.to_owned())
    } else {
        let state = StateDir::open(&config.state_dir).map_err(Failure::said)?;
        let bearer = state.bearer().map_err(Failure::said)?;
        (bearer.token, bearer.path.display().to_string())
    };
    if args.json {
        return output::json(&json!({"token": token.expose_secret(), "from": from}));
    }
    output::answer(format_args!("{}", token.expose_secret()))
}
