//! Jobs that can't be read: what the user learns of them.

use api::{PaddleJob, labels};
use jiff::Timestamp;
use kube::runtime::controller::Action;
use plan::{Urgency, paddlejob};

use super::apply::remove_finalizer;
use super::stored::BadJob;
use crate::Error;
use crate::common::Common;

/// Tells the user what is wrong with an object that can't be read.
pub(super) async fn tell(common: &Common, bad: &BadJob, now: Timestamp) -> Result<Action, Error> {
    let meta = &bad.metadata;
    let finalizers = meta.finalizers.as_deref().unwrap_or_default();
    let has_old = finalizers.iter().any(|name| name == labels::GO_FINALIZER);
    if has_old && remove_finalizer(common, meta).await? {
        return Ok(Action::await_change());
    }
    let plan = paddlejob::unreadable(bad.status.clone(), meta.generation, &bad.error, now);
    if paddlejob::urgency(bad.status.as_ref(), &plan) != Urgency::Never {
        common.write_status::<PaddleJob>(meta, &plan.status).await?;
    }
    common.tell::<PaddleJob>(meta, &plan.events, now).await;
    Ok(Action::await_change())
}
