//! tmp
use super::*;
#[derive(Debug)]
pub(crate) struct Protocol2;
#[allow(clippy::todo, unused_variables)]
impl Dialect for Protocol2 {
    fn protocol(&self) -> u32 {
        2
    }
    fn shell_subscription(&self) -> Subscription {
        Subscription::new("orchestration.subscribeShell")
    }
    fn archive_subscription(&self) -> Subscription {
        Subscription::new("orchestration.subscribeArchivedShell")
    }
    fn providers(&self) -> Result<Call, MachineError> {
        todo!()
    }
    fn read_shell_item(&self, value: &RawValue) -> Result<ShellItem, MachineError> {
        todo!()
    }
    fn read_archive_item(&self, value: &RawValue) -> Result<ArchiveItem, MachineError> {
        todo!()
    }
    fn read_thread(&self, body: &[u8]) -> Result<Thread, MachineError> {
        todo!()
    }
    fn read_providers(&self, value: &RawValue) -> Result<Vec<Provider>, MachineError> {
        todo!()
    }
    fn read_launched(&self, value: &RawValue, message: &MessageId) -> Result<Launched, MachineError> {
        todo!()
    }
    fn read_sequence(&self, value: &RawValue) -> Result<u64, MachineError> {
        todo!()
    }
    fn launch(&self, launch: &Launch) -> Result<Call, MachineError> {
        todo!()
    }
    fn launch_in_steps(&self, launch: &Launch) -> Result<[Call; 2], MachineError> {
        todo!()
    }
    fn send_message(&self, message: &SendMessage) -> Result<Call, MachineError> {
        todo!()
    }
    fn respond(&self, respond: &Respond) -> Result<Call, MachineError> {
        todo!()
    }
    fn interrupt(
        &self,
        command: &CommandId,
        thread: &ThreadId,
        run: &RunId,
        hold_queue: bool,
    ) -> Result<Call, MachineError> {
        todo!()
    }
    fn cancel_queued(&self, command: &CommandId, thread: &ThreadId, run: &RunId) -> Result<Call, MachineError> {
        todo!()
    }
    fn set_runtime_mode(
        &self,
        command: &CommandId,
        thread: &ThreadId,
        mode: RuntimeMode,
    ) -> Result<Call, MachineError> {
        todo!()
    }
    fn set_interaction_mode(
        &self,
        command: &CommandId,
        thread: &ThreadId,
        mode: InteractionMode,
    ) -> Result<Call, MachineError> {
        todo!()
    }
}
