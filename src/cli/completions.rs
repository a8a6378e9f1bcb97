//! `completions`: a script that completes this program's commands in a shell.

use super::output;

/// Print a completion script for a shell.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  t3code-mcp completions bash > ~/.local/share/bash-completion/completions/t3code-mcp"
)]
pub(super) struct Args {
    /// The shell
    shell: clap_complete::Shell,
}

/// Prints the script.
pub(super) fn run(args: &Args, command: &mut clap::Command) {
    let mut script = Vec::new();
    let name = command.get_name().to_owned();
    clap_complete::generate(args.shell, command, name, &mut script);
    output::say(format_args!("{}", String::from_utf8_lossy(&script)));
}
