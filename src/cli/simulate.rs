//! `simulate`: a T3 server in memory, to try the gateway without a T3.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use serde_json::json;

use super::{Failure, output, runtime};
use crate::simulator::{Simulator, SimulatorOptions};

/// Serve a simulated T3, with one project and a scripted agent.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(super) struct Args {
    /// The address to listen on
    #[arg(long, default_value = "127.0.0.1")]
    host: IpAddr,
    /// The port to listen on; 0 lets the system choose one
    #[arg(long, short, default_value_t = 3773)]
    port: u16,
    /// The one token that is accepted; without it any is
    #[arg(long)]
    token: Option<String>,
    /// Refuse clients that do not name the protocol's version, as newer servers do
    #[arg(long)]
    gate: bool,
    /// The orchestration protocol to speak: 2, or 1 as older servers do
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=2))]
    protocol: u32,
    /// Print a JSON object with the url and the project to stdout, once it listens
    #[arg(long)]
    json: bool,
}

/// How often it is looked whether the link was used.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// How long the link that is printed can be used, once.
const LINK_LIFE: Duration = Duration::from_hours(24);

const HELP: &str = "\
The agent obeys the last line of a prompt: say X, sleep N, fail X, ask (two questions), approve CMD,
tool, edit FILE, crash. Nothing is kept, and no command is run. As in T3, approve CMD asks somebody
only where the thread runs with --runtime-mode approval-required; else it is allowed at once.

The link that is printed is good once. When it was used, the next one is printed; a machine with
token_env needs none.

Example, in three shells:
  t3code-mcp simulate
  t3code-mcp pair simulated '<link>' && t3code-mcp serve
  t3code-mcp dispatch 'approve ls' --runtime-mode approval-required --wait";

/// Serves until Ctrl-C or SIGTERM.
pub(super) fn run(args: &Args) -> Result<(), Failure> {
    runtime::run(simulate(args))?
}

async fn simulate(args: &Args) -> Result<(), Failure> {
    let options = SimulatorOptions {
        listen: SocketAddr::new(args.host, args.port),
        token: args.token.clone(),
        gate: args.gate,
        protocol: args.protocol,
        ..SimulatorOptions::default()
    };
    let simulator = Simulator::start(options).await.map_err(Failure::said)?;
    let faults = simulator.faults();
    let new_link = || {
        let code = faults.pairing_code(LINK_LIFE);
        let link = format!("{}/pair#token={code}", simulator.url());
        (code, link)
    };
    let (mut code, link) = new_link();
    if args.json {
        output::line_of_json(&json!({"url": simulator.url(), "project": "t3-smoke", "link": link}));
    }
    output::complain(format_args!(
        "a simulated T3 listens on {}, with the project t3-smoke",
        simulator.url()
    ));
    output::complain(format_args!(
        "pair it:  t3code-mcp pair simulated '{link}'   (good once; then the next link is printed here)"
    ));
    output::complain(format_args!(
        "or put it into t3code.toml, and set T3_TOKEN to {}:",
        args.token.as_ref().map_or("anything", |_| "the token")
    ));
    output::complain(format_args!(
        "  [machines.simulated]\n  url = \"{}\"\n  token_env = \"T3_TOKEN\"\n  projects = [\"*\"]",
        simulator.url()
    ));
    let printing = async {
        let mut clock = tokio::time::interval(LOOK_EVERY);
        loop {
            clock.tick().await;
            if !faults.has_pairing_code(&code) {
                let link;
                (code, link) = new_link();
                output::complain(format_args!("that link was used; the next one: '{link}'"));
            }
        }
    };
    tokio::select! {
        told = runtime::until_told_to_stop() => told?,
        () = printing => {}
    }
    simulator.stop().await;
    Ok(())
}
