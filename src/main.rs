//! Parses the command line and calls one command.

fn main() -> std::process::ExitCode {
    t3code_mcp::cli::main()
}
