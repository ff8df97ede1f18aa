/* plan.c: header and layer flags to a plan. */
#include "plan.h"

#include "ml_config.h"

ml_status ml_plan_check(const ml_model *model, ml_error *error)
{
    const ml_config *c = &model->config;
    const struct {
        const char *field;
        double value;
        const char *what;
    } missing[] = {
        {"lin_k_heads", c->lin_k_heads, "linear attention is"},
        {"attn_gate", c->attn_gate, "attention gates are"},
        {"attn_softcap", (double)c->attn_softcap, "soft caps are"},
        {"final_softcap", (double)c->final_softcap, "soft caps are"},
    };
    for (size_t i = 0; i < sizeof missing / sizeof *missing; i++)
        if (missing[i].value != 0.0)
            return ml_fail(error, ML_E_UNSUPPORTED, "%s: %s is %g: %s not supported yet", model->path,
                           missing[i].field, missing[i].value, missing[i].what);
    return ML_OK;
}

static int largest(int a, int b)
{
    return a > b ? a : b;
}

void ml_plan_build(ml_plan *plan, ml_layer_plan *layers, const ml_model *model)
{
    const ml_config *c = &model->config;
    *plan = (ml_plan){
        .dim = (int)c->dim,
        .hidden_dim = (int)c->hidden_dim,
        .vocab = (int)c->vocab,
        .n_layers = (int)c->n_layers,
        .n_heads = (int)c->n_heads,
        .n_kv_heads = (int)c->n_kv_heads,
        .head_dim = (int)c->head_dim,
        .rot_dim = (int)c->rot_dim,
        .q_dim = (int)c->q_dim,
        .kv_dim = (int)c->kv_dim,
        .scales_embedding = c->embed_scale != 1.0f,
        .embed_scale = c->embed_scale,
        .attn_scale = c->attn_scale,
        .norm_eps = c->norm_eps,
        .activate = c->act == ML_ACT_GELU ? ml_k_gelu_mul : ml_k_silu_mul,
        .layers = layers,
    };
    plan->widest = largest(largest(plan->dim, plan->hidden_dim), plan->q_dim);
    for (int i = 0; i < plan->n_layers; i++) {
        const ml_layer_weights *weights = &model->layers[i];
        bool local = weights->flags & ML_LAYER_LOCAL_ROPE;
        layers[i] = (ml_layer_plan){
            .weights = weights,
            .kv_layer = plan->n_kv_layers++,
            .window = weights->flags & ML_LAYER_WINDOW ? (int)c->sliding_window : 0,
            .rope = weights->flags & ML_LAYER_NO_ROPE ? ML_ROPE_NONE
                    : local                           ? ML_ROPE_LOCAL
                                                      : ML_ROPE_GLOBAL,
        };
        plan->local_rope = plan->local_rope || local;
    }
}
