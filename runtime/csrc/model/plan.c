/* plan.c: header and layer flags to a plan. */
#include "plan.h"

#include "ml_config.h"

static int largest(int a, int b)
{
    return a > b ? a : b;
}

static ml_delta_sizes delta_sizes(const ml_config *c)
{
    return (ml_delta_sizes){
        .k_heads = (int)c->lin_k_heads,
        .v_heads = (int)c->lin_v_heads,
        .k_dim = (int)c->lin_k_dim,
        .v_dim = (int)c->lin_v_dim,
        .taps = (int)c->lin_conv,
        .channels = (int)(2 * c->lin_k_heads * c->lin_k_dim + c->lin_v_heads * c->lin_v_dim),
    };
}

static void set_sizes(ml_plan *plan, const ml_config *c)
{
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
        .attn_softcap = c->attn_softcap,
        .final_softcap = c->final_softcap,
        .norm_eps = c->norm_eps,
        .activate = c->act == ML_ACT_GELU ? ml_k_gelu_mul : ml_k_silu_mul,
        .gate_width = c->attn_gate ? (int)c->q_dim : 0,
    };
    plan->widest = largest(largest(plan->dim, plan->hidden_dim), plan->q_dim);
}

static void set_attention(ml_plan *plan, ml_layer_plan *layer, const ml_config *c)
{
    uint8_t flags = layer->weights->flags;
    bool local = flags & ML_LAYER_LOCAL_ROPE;
    layer->kv_layer = plan->n_kv_layers++;
    layer->window = flags & ML_LAYER_WINDOW ? (int)c->sliding_window : 0;
    layer->rope = flags & ML_LAYER_NO_ROPE ? ML_ROPE_NONE : local ? ML_ROPE_LOCAL : ML_ROPE_GLOBAL;
    plan->local_rope = plan->local_rope || local;
}

/* False if the state's size overflows. */
static bool set_linear(ml_plan *plan, ml_layer_plan *layer, const ml_config *c)
{
    size_t floats;
    int values = (int)(c->lin_v_heads * c->lin_v_dim);
    plan->delta = delta_sizes(c);
    plan->mixed_width = plan->delta.channels;
    plan->gate_width = largest(plan->gate_width, values);
    plan->widest = largest(plan->widest, values);
    layer->linear = true;
    layer->state_offset = plan->state_floats;
    return ml_delta_state_floats(&plan->delta, &floats) &&
           ml_size_add(plan->state_floats, floats, &plan->state_floats);
}

ml_status ml_plan_build(ml_plan *plan, ml_layer_plan *layers, const ml_model *model, ml_error *error)
{
    const ml_config *c = &model->config;
    set_sizes(plan, c);
    plan->layers = layers;
    for (int i = 0; i < plan->n_layers; i++) {
        layers[i] = (ml_layer_plan){.weights = &model->layers[i]};
        if (!(model->layers[i].flags & ML_LAYER_LINEAR))
            set_attention(plan, &layers[i], c);
        else if (!set_linear(plan, &layers[i], c))
            return ml_fail(error, ML_E_NOMEM,
                           "%s: the state of a sequence does not fit into the address space", model->path);
    }
    return ML_OK;
}
