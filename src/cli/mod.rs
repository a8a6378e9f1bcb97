//! The command line: one file a command, each alike: its arguments, and `run`, which asks what a client of the endpoint would ask and prints it.
//!
//! Nothing here decides anything about threads: a person goes through the same gateway as an agent. Results go to stdout, all else to
//! stderr; a failure is one sentence there and a non-zero exit. Text that came from T3 is printed through [`crate::protocol::Untrusted`].

mod answer;
mod asking;
mod completions;
mod demo;
mod dispatch;
mod doctor;
mod events;
mod failure;
mod flags;
mod interrupt;
mod ledger;
mod live;
mod logging;
mod machines;
mod models;
mod output;
mod pair;
mod paired;
mod projects;
mod prompt;
mod queue;
mod reply;
mod role;
mod runtime;
mod schema;
mod serve;
mod simulate;
mod slim;
mod smoke;
mod status;
mod thread;
mod threads;
mod token;
mod view;
mod wait;
mod watch;
mod words;

use std::process::ExitCode;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use failure::Failure;

/// A gateway between AI agents and T3 Code: dispatch coding threads on your T3 machines over MCP, wait for them, read them.
#[derive(Debug, Parser)]
#[command(
    name = "t3code-mcp",
    version,
    disable_help_subcommand = true,
    args_conflicts_with_subcommands = true,
    max_term_width = 100,
    after_help = EXAMPLES
)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    /// Without a command it serves.
    #[command(flatten)]
    serve: serve::Flags,
}

const EXAMPLES: &str = "\
Examples:
  t3code-mcp demo                     see it work, without any T3
  t3code-mcp                          serve what ./t3code.toml describes, as `serve` does
  t3code-mcp pair mac '<link>'        let the gateway use the T3 whose `t3 pair` printed the link
  t3code-mcp doctor                   find out why a machine is not online
  t3code-mcp projects --json          what agents may work on
  t3code-mcp dispatch -p shop 'Fix the login test.' --wait
  t3code-mcp threads --state busy     what agents work on now
  t3code-mcp events list              what happened, and whether the hook took it

Every setting, its file key and its variable: t3code-mcp serve --help";

#[derive(Debug, Subcommand)]
enum Command {
    Serve(serve::Args),
    Demo(demo::Args),
    Doctor(doctor::Args),
    Pair(pair::Args),
    Unpair(pair::UnpairArgs),
    Status(status::Args),
    Token(token::Args),
    Machines(machines::Args),
    Projects(projects::Args),
    Models(models::Args),
    Threads(threads::Args),
    Dispatch(Box<dispatch::Args>),
    Wait(wait::Args),
    Thread(thread::Args),
    Answer(answer::Args),
    Interrupt(interrupt::Args),
    Queue(queue::Args),
    Watch(watch::Args),
    Smoke(smoke::Args),
    Events(events::Args),
    Schema(schema::Args),
    Simulate(simulate::Args),
    Completions(completions::Args),
}

/// Whether there is a command of that name.
#[cfg(test)]
fn has_command(name: &str) -> bool {
    Cli::command().find_subcommand(name).is_some()
}

/// Parses the arguments and runs one command.
pub fn main() -> ExitCode {
    // `serve` can be left out, with its flags; its own help explains them.
    let command = Cli::command().mut_args(|arg| arg.hide(true));
    let parsed = command
        .try_get_matches()
        .and_then(|matches| Cli::from_arg_matches(&matches));
    let cli = match parsed {
        Ok(cli) => cli,
        // Help and version go to stdout and are no failure; clap knows.
        Err(error) => error.exit(),
    };
    let done = match cli.command.unwrap_or(Command::Serve(cli.serve.into())) {
        Command::Serve(args) => serve::run(&args),
        Command::Demo(args) => demo::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Pair(args) => pair::run(&args),
        Command::Unpair(args) => pair::unpair(&args),
        Command::Status(args) => status::run(&args),
        Command::Token(args) => token::run(&args),
        Command::Machines(args) => machines::run(&args),
        Command::Projects(args) => projects::run(&args),
        Command::Models(args) => models::run(&args),
        Command::Threads(args) => threads::run(&args),
        Command::Dispatch(args) => dispatch::run(&args),
        Command::Wait(args) => wait::run(&args),
        Command::Thread(args) => thread::run(&args),
        Command::Answer(args) => answer::run(&args),
        Command::Interrupt(args) => interrupt::run(&args),
        Command::Queue(args) => queue::run(&args),
        Command::Watch(args) => watch::run(&args),
        Command::Smoke(args) => smoke::run(&args),
        Command::Events(args) => events::run(&args),
        Command::Schema(args) => schema::run(&args),
        Command::Simulate(args) => simulate::run(&args),
        Command::Completions(args) => {
            completions::run(&args, &mut Cli::command());
            Ok(())
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
