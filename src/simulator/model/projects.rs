//! Projects: made, changed and deleted by their own mutations, which are no commands.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::commands::Receipt;
use super::stamp::Stamp;
use super::{Model, Subject, text};

/// A project.
#[derive(Clone, Debug)]
pub(crate) struct Project {
    /// The client's id for it.
    pub id: String,
    /// What people call it.
    pub title: String,
    /// Its folder.
    pub workspace_root: String,
    /// The model that a new thread takes.
    pub default_model: Value,
    /// Scripts, as the client sent them.
    pub scripts: Value,
    /// When it was made.
    pub created_at: Stamp,
    /// When it was changed.
    pub updated_at: Stamp,
    /// When it was deleted.
    pub deleted_at: Option<Stamp>,
}

impl Project {
    /// As mutations and the project list show it.
    pub(crate) fn to_json(&self) -> Value {
        json!({
            "id": self.id,
            "title": self.title,
            "workspaceRoot": self.workspace_root,
            "repositoryIdentity": null,
            "faviconPath": null,
            "defaultModelSelection": self.default_model,
            "scripts": self.scripts,
            "createdAt": self.created_at.to_string(),
            "updatedAt": self.updated_at.to_string(),
            "deletedAt": self.deleted_at.map(|at| at.to_string()),
        })
    }

    /// As the shell shows it.
    pub(crate) fn to_shell(&self) -> Value {
        json!({
            "id": self.id,
            "title": self.title,
            "workspaceRoot": self.workspace_root,
            "repositoryIdentity": null,
            "defaultModelSelection": self.default_model,
            "defaultThreadEnvMode": null,
            "faviconPath": null,
            "scripts": self.scripts,
            "createdAt": self.created_at.to_string(),
            "updatedAt": self.updated_at.to_string(),
        })
    }
}

/// The id of the project for what belongs to none.
const SCRATCH_ID: &str = "project-scratch";

/// Why a project mutation failed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum ProjectError {
    /// Another project has the folder.
    RootTaken,
    /// There is no such folder.
    NoFolder,
    /// There is no such project.
    NotFound,
    /// Newer servers refuse to delete a project with threads.
    NotEmpty,
}

impl Model {
    pub(crate) fn live_project(&self, id: &str) -> Option<&Project> {
        self.projects
            .iter()
            .find(|project| project.id == id && project.deleted_at.is_none())
    }

    /// A mutation that its schema has accepted. Over HTTP a missing folder is never made.
    pub(crate) fn handle_project(
        &mut self,
        now: Stamp,
        mutation: &Value,
        may_make: bool,
    ) -> Result<Value, ProjectError> {
        let command = text(mutation, "commandId").to_owned();
        if let Some(Receipt::Project { answer, .. }) = self.receipts.get(&command) {
            return Ok(answer.clone());
        }
        let ix = match text(mutation, "type") {
            "project.create" => self.create_project(now, mutation, may_make)?,
            kind => self.change_project(now, mutation, kind == "project.delete")?,
        };
        let sequence = self.advance(Subject::Project(ix));
        let answer = self.projects.get(ix).map(Project::to_json).unwrap_or_default();
        let receipt = Receipt::Project {
            sequence,
            answer: answer.clone(),
        };
        self.receipts.insert(command, receipt);
        Ok(answer)
    }

    /// The project for what belongs to none, made when it is first asked for.
    pub(crate) fn handle_scratch(&mut self, now: Stamp) -> Result<String, ProjectError> {
        if self.live_project(SCRATCH_ID).is_none() {
            let create = json!({
                "type": "project.create",
                "commandId": format!("server:{SCRATCH_ID}:{}", self.head()),
                "projectId": SCRATCH_ID,
                "title": "Scratch",
                "workspaceRoot": format!("{}/scratch", self.options.home),
                "createWorkspaceRootIfMissing": true,
            });
            self.handle_project(now, &create, true)?;
        }
        Ok(SCRATCH_ID.to_owned())
    }

    fn create_project(&mut self, now: Stamp, mutation: &Value, may_make: bool) -> Result<usize, ProjectError> {
        let root = text(mutation, "workspaceRoot");
        let taken = self
            .projects
            .iter()
            .any(|project| project.deleted_at.is_none() && project.workspace_root == root);
        if taken {
            return Err(ProjectError::RootTaken);
        }
        if !self.options.folders.iter().any(|folder| folder == root) {
            let wanted = mutation.get("createWorkspaceRootIfMissing").and_then(Value::as_bool);
            if !may_make || wanted != Some(true) {
                return Err(ProjectError::NoFolder);
            }
            self.options.folders.push(root.to_owned());
        }
        self.projects.push(Project {
            id: text(mutation, "projectId").to_owned(),
            title: text(mutation, "title").to_owned(),
            workspace_root: root.to_owned(),
            default_model: mutation.get("defaultModelSelection").cloned().unwrap_or_default(),
            scripts: mutation.get("scripts").cloned().unwrap_or_else(|| json!([])),
            created_at: now,
            updated_at: now,
            deleted_at: None,
        });
        Ok(self.projects.len() - 1)
    }

    fn change_project(&mut self, now: Stamp, mutation: &Value, delete: bool) -> Result<usize, ProjectError> {
        let id = text(mutation, "projectId");
        let ix = self
            .projects
            .iter()
            .position(|project| project.id == id && project.deleted_at.is_none())
            .ok_or(ProjectError::NotFound)?;
        let force = mutation.get("force").and_then(Value::as_bool) == Some(true);
        let live = |thread: &super::thread::Thread| thread.app.project_id == id && thread.app.deleted_at.is_none();
        if delete && !force && self.options.newer && self.threads.iter().any(live) {
            return Err(ProjectError::NotEmpty);
        }
        let Some(project) = self.projects.get_mut(ix) else {
            return Err(ProjectError::NotFound);
        };
        project.updated_at = now;
        if delete {
            project.deleted_at = Some(now);
            return Ok(ix);
        }
        if let Some(title) = mutation.get("title").and_then(Value::as_str) {
            title.clone_into(&mut project.title);
        }
        if let Some(root) = mutation.get("workspaceRoot").and_then(Value::as_str) {
            root.clone_into(&mut project.workspace_root);
        }
        if let Some(model) = mutation.get("defaultModelSelection") {
            project.default_model = model.clone();
        }
        Ok(ix)
    }

    /// The folders of all projects: T3 knows what repository each is.
    pub(crate) fn roots(&self) -> Vec<String> {
        let mut seen = HashSet::new();
        self.projects
            .iter()
            .filter(|project| project.deleted_at.is_none())
            .map(|project| project.workspace_root.clone())
            .filter(|root| seen.insert(root.clone()))
            .collect()
    }
}
