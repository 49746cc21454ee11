// @ts-check
// Sandboxes: the run of this laboratory goes on from a moment of its past, at an address of its own.
"use strict";

/** The moment that is meant if none is typed: the chosen one, or just before the chosen rebalance, or the newest there is. */
function momentChosen() {
  if (page.moment !== null) return new Date(page.moment * 1000).toISOString();
  const rebalance = page.model.groups.get(page.group)?.rebalances[page.selected];
  return rebalance ? new Date(Math.ceil(rebalance.started * 1000) - 1).toISOString() : "";
}

async function renderSandboxes() {
  const found = await ask("GET", "/v1/sandboxes");
  if (!found || !found.journal) return;
  $("#lab-sandbox").hidden = false;
  $("#lab-journal").textContent = found.ended ? `The journal has ended: ${found.end_reason}. A sandbox can begin at any moment before that.` : "";
  $("#sandboxes").replaceChildren(...found.sandboxes.map((each) => {
    const line = document.createElement("li"), link = document.createElement("a");
    link.href = each.control;
    link.target = "_blank";
    link.textContent = each.control;
    line.append(`Sandbox ${each.sandbox}, from ${each.until || "the newest moment"}: its page is `, link, `, its clients connect to ${each.kafka} `,
      button("end", async () => {
        await ask("DELETE", `/v1/sandboxes/${each.sandbox}`);
        await renderSandboxes();
      }));
    return line;
  }));
}

function openSandboxes() {
  if (!page.server || !("lab" in document.documentElement.dataset)) return;
  form("#lab-sandbox", async (given) => {
    const press = $("#lab-sandbox button");
    press.disabled = true;
    await ask("POST", "/v1/sandboxes", { until: given.until ?? momentChosen() });
    press.disabled = false;
    await renderSandboxes();
  });
  const suggest = () => ($("#lab-sandbox input").placeholder = momentChosen() || "now");
  new MutationObserver(suggest).observe($("#drawer"), { attributes: true, childList: true });
  document.addEventListener("moment", suggest);
  renderSandboxes();
}

openSandboxes();
