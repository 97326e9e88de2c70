//! What MCP servers do besides running their tools.

/// A request to an MCP server that is no call of a tool. Each has an entry like a tool, so that policy, hooks and the journal hold
/// for it too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Lists resources.
    ListResources,
    /// Lists templates of resources.
    ListTemplates,
    /// Reads a resource.
    ReadResource,
    /// Lists prompts.
    ListPrompts,
    /// Gets a prompt with its arguments filled in.
    GetPrompt,
    /// Says how an argument may go on.
    Complete,
}

impl Operation {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::ListResources,
        Self::ListTemplates,
        Self::ReadResource,
        Self::ListPrompts,
        Self::GetPrompt,
        Self::Complete,
    ];

    /// Returns its name, in ids: `mcp:docs:resources/read`.
    pub fn name(self) -> &'static str {
        match self {
            Self::ListResources => "resources/list",
            Self::ListTemplates => "resources/templates/list",
            Self::ReadResource => "resources/read",
            Self::ListPrompts => "prompts/list",
            Self::GetPrompt => "prompts/get",
            Self::Complete => "completion/complete",
        }
    }

    /// Returns the one with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|operation| operation.name() == name)
    }
}
