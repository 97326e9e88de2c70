//! The arguments of `pincer init`, `pincer doctor` and `pincer demo`.

use clap::Args;

#[derive(Args)]
pub(crate) struct InitArguments {
    /// Replace a config that is there already
    #[arg(long)]
    pub force: bool,
    /// Ask nothing: take the first model that is found
    #[arg(long, short = 'y')]
    pub yes: bool,
    /// The model that agents use; otherwise one that is found
    #[arg(long, value_name = "PROVIDER/MODEL")]
    pub model: Option<String>,
    /// Print one JSON document, and ask nothing
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub(crate) struct DoctorArguments {
    /// Ask no provider, and start no MCP server
    #[arg(long)]
    pub offline: bool,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub(crate) struct DemoArguments {
    /// Be the MCP server that the demo calls
    #[arg(long, hide = true)]
    pub bank: bool,
}
