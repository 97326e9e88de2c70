//! Deliveries without a runtime.

use pincer_store::{
    Delivery, DeliveryChange, DeliveryPage, DeliveryState, Enqueued, Fence, Millis, NewDelivery, StoreError,
};

use crate::Blocking;

type Done<T> = Result<T, StoreError>;

#[allow(missing_docs, reason = "each method is that of the trait of the same name")]
impl Blocking<'_> {
    pub fn enqueue(&self, delivery: &NewDelivery) -> Done<Enqueued> {
        self.0.enqueue(delivery.clone()).wait()
    }

    pub fn delivery(&self, id: &str) -> Done<Delivery> {
        self.0.delivery(&id.into()).wait()
    }

    pub fn first_deliveries(&self, channel: &str) -> Done<Vec<Delivery>> {
        self.0.first_deliveries(channel).wait()
    }

    pub fn claim_delivery(&self, id: &str, seen: Fence, owner: &str) -> Done<Delivery> {
        self.0.claim_delivery(&id.into(), seen, &owner.into()).wait()
    }

    pub fn change_delivery(&self, id: &str, fence: Fence, change: DeliveryChange) -> Done<()> {
        self.0.change_delivery(&id.into(), fence, change).wait()
    }

    pub fn cancel_delivery(&self, id: &str, reason: &str, now: Millis) -> Done<bool> {
        self.0.cancel_delivery(&id.into(), reason, now).wait()
    }

    pub fn hurry_deliveries(&self, channel: &str, now: Millis) -> Done<usize> {
        self.0.hurry_deliveries(channel, now).wait()
    }

    pub fn expire_deliveries(&self, now: Millis) -> Done<Vec<Delivery>> {
        self.0.expire_deliveries(now).wait()
    }

    pub fn deliveries(&self, state: Option<DeliveryState>, limit: u32) -> Done<Vec<Delivery>> {
        self.0.deliveries(DeliveryPage { state, limit, ..DeliveryPage::default() }).wait()
    }

    pub fn deliveries_of_run(&self, run: &str) -> Done<Vec<Delivery>> {
        self.0.deliveries_of_run(&run.into()).wait()
    }

    pub fn forget_deliveries(&self, before: Millis) -> Done<usize> {
        self.0.forget_deliveries(before).wait()
    }
}
